// Uses the entry that needs Node.
import { HandoffError, parseKeyring, verifyHandoff } from '@melmastoon/bff/handoff';

export function receive(keyring: string, token: string): string {
  try {
    return verifyHandoff(parseKeyring(keyring), token, new Date()).tenantId;
  } catch (error) {
    if (error instanceof HandoffError) return error.code;
    throw error;
  }
}
