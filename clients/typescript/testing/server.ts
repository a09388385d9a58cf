import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

import type { Code } from '../core/codes.js';
import type { Problem } from '../core/errors.js';

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Sent as JSON, unless it is a text. */
  readonly body?: unknown;
}

export interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** What the server does with a request: a reply, none at all, or a broken connection. */
export type Step = Reply | 'hang' | 'drop' | ((seen: Seen) => Reply);

/** Serves one step after the other; the last one is for all that follow. */
export async function serve(t: TestContext, ...steps: Step[]): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => (body += part));
    request.on('end', () => {
      const asked = { method: request.method, url: request.url, headers: request.headers, body };
      seen.push(asked);
      const step = steps.length > 1 ? (steps.shift() as Step) : (steps[0] as Step);
      if (step === 'hang') return;
      if (step === 'drop') return void request.socket.destroy();
      const reply = typeof step === 'function' ? step(asked) : step;
      const text = reply.body === undefined || typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body);
      response.writeHead(reply.status, { ...(typeof reply.body === 'object' ? { 'Content-Type': 'application/json' } : {}), ...reply.headers });
      response.end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

/** A refusal of the service. */
export function refusal(code: Code, status: number, more: Partial<Problem> = {}, headers: Readonly<Record<string, string>> = {}): Reply {
  const error: Problem = {
    type: `https://docs.melmastoon.ghasi.io/errors/${code}`,
    code,
    title: 'Refused',
    status,
    detail: 'Refused',
    instance: 'urn:melmastoon:request:req_01M7H171TE8TMMAWSY3VS0AZES',
    errors: [],
    traceId: '4454559ef1deb3d235cd2a59257725a0',
    requestId: 'req_01M7H171TE8TMMAWSY3VS0AZES',
    tenantId: null,
    retriable: false,
    retryAfter: null,
    userMessageKey: 'error.general.internal',
    docUrl: `https://docs.melmastoon.ghasi.io/errors/${code}`,
    runbook: null,
    ...more,
  };
  return { status, headers: { 'Content-Type': 'application/problem+json', ...headers }, body: { error } };
}
