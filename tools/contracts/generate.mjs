// Generates fetch clients of both services with orval, which people take who do not take ours, into generated/. What openapi-typescript makes is the
// schema.ts of our own client, with no option given.
import { fileURLToPath } from 'node:url';

import { generate } from 'orval';

const here = fileURLToPath(new URL('.', import.meta.url));
for (const service of ['consumer', 'backoffice']) {
  const mutator = { path: './generated/send.ts', name: service };
  await generate({ input: { target: `../../contracts/openapi/${service}.yaml` }, output: { target: `./generated/${service}.ts`, client: 'fetch', override: { mutator } } }, here);
}
