/** The codes that a receiving service answers with; their statuses are 401 and 410. */
export type HandoffErrorCode =
  | 'MELMASTOON.BFF.CONSUMER.HANDOFF_SIGNATURE_INVALID'
  | 'MELMASTOON.BFF.CONSUMER.HANDOFF_EXPIRED';

/** Why a token was refused: for the log, never for the client. */
export type HandoffRefusal = 'malformed' | 'unknown-key' | 'signature' | 'future' | 'expired';

/**
 * A refused token. All refusals but expiry carry one code and one message:
 * telling a forger which check failed would only help the forger.
 */
export class HandoffError extends Error {
  readonly code: HandoffErrorCode;
  readonly status: 401 | 410;
  readonly reason: HandoffRefusal;

  constructor(reason: HandoffRefusal) {
    super(reason === 'expired' ? 'the hand-off token has expired' : 'the hand-off token is not genuine');
    this.name = 'HandoffError';
    this.reason = reason;
    this.code =
      reason === 'expired'
        ? 'MELMASTOON.BFF.CONSUMER.HANDOFF_EXPIRED'
        : 'MELMASTOON.BFF.CONSUMER.HANDOFF_SIGNATURE_INVALID';
    this.status = reason === 'expired' ? 410 : 401;
  }
}
