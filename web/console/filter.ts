// The filter box: words of which all must hold. `-` before one turns it round.
import type { Request } from './api.js';

type Test = (request: Request) => boolean;

const has = (text: string | undefined, part: string): boolean => text?.toLowerCase().includes(part) ?? false;

const members: Readonly<Record<string, (value: string) => Test>> = {
  route: (value) => ({ route, target }) => has(route, value) || has(target, value),
  status: (value) => {
    const [, sign, number] = /^(<|>|<=|>=)?(\d+)$/.exec(value) ?? [];
    const n = Number(number);
    if (sign !== undefined) return ({ status }) => (sign.startsWith('<') ? status < n : status > n) || (sign.endsWith('=') && status === n);
    return ({ status }) => new RegExp(`^${value.replace(/x/g, '\\d').replace(/[^\\d\d]/g, '')}`).test(String(status));
  },
  degraded: (value) => ({ degraded }) => degraded?.some((what) => has(what, value)) ?? false,
  tenant: (value) => ({ caller, target, body }) => has(caller.tenantId, value) || has(target, value) || has(body, value),
  caller: (value) => ({ caller }) => has(caller.kind, value) || has(caller.name, value) || has(caller.verdict, value),
  service: (value) => ({ service }) => has(service, value),
  method: (value) => ({ method }) => has(method, value),
  cache: (value) => ({ cache }) => has(cache, value),
  fault: (value) => ({ faults }) => faults?.some((what) => has(what, value)) ?? false,
  code: (value) => ({ code }) => has(code, value),
};

function test(word: string): Test {
  if (word.startsWith('-') && word.length > 1) {
    const not = test(word.slice(1));
    return (request) => !not(request);
  }
  const [, sign, number, unit] = /^([<>])=?(\d+(?:\.\d+)?)(ms|s)?$/.exec(word) ?? [];
  if (number !== undefined) {
    const ms = Number(number) * (unit === 's' ? 1000 : 1);
    return (request) => (sign === '>' ? request.ms >= ms : request.ms <= ms);
  }
  if (word === 'degraded') return ({ degraded }) => (degraded?.length ?? 0) > 0;
  const [, name = '', value = ''] = /^(\w+):(.*)$/.exec(word) ?? [];
  const member = members[name];
  if (member !== undefined) return value === '' ? () => true : member(value);
  return ({ id, traceId, target, route, code, caller, degraded }) => [id, traceId, target, route, code, caller.name, ...(degraded ?? [])].some((text) => has(text, word));
}

/** Whether a request is what the words ask for. */
export function filter(words: string): Test {
  const tests = words.toLowerCase().split(/\s+/).filter(Boolean).map(test);
  return (request) => tests.every((holds) => holds(request));
}

/** Words to begin with. */
export const usual: readonly (readonly [string, string])[] = [
  ['failed', 'status:>=400'], ['slow', '>200ms'], ['degraded', 'degraded'], ['guests', 'caller:guest'], ['operators', 'caller:operator'], ['searches', 'route:/search'],
];
