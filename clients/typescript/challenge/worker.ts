// The solver beside the page, for pages whose policy forbids workers made of text:
//
//   solve(challenge, { worker: () => new Worker(new URL('@melmastoon/bff/challenge/worker', import.meta.url), { type: 'module' }) })
import { serve } from './serve.js';
import { searcher } from './search.js';

serve(searcher, globalThis as unknown as Parameters<typeof serve>[1]);
