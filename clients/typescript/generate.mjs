// Makes what the contracts say: schemas of both services, the codes of their errors, the texts for people and the facts of locales.
// What is newer than its source and than this file stays.
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';

const contracts = new URL('../../contracts/', import.meta.url);
const here = (path) => new URL(path, import.meta.url);

const outdated = (made, source) => {
  const at = (url) => statSync(url, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return at(made) <= Math.max(at(source), at(new URL(import.meta.url)));
};

for (const service of ['consumer', 'backoffice']) {
  const source = new URL(`openapi/${service}.yaml`, contracts);
  const made = here(`${service}/schema.ts`);
  if (!outdated(made, source)) continue;
  const program = here('node_modules/openapi-typescript/bin/cli.js').pathname;
  // With no option: what others generate from the contract compiles and reads the same.
  execFileSync(process.execPath, [program, source.pathname, '-o', made.pathname], { stdio: ['ignore', 'ignore', 'inherit'] });
}

const { codes } = JSON.parse(readFileSync(new URL('errors/registry.json', contracts), 'utf8'));
const union = codes.map(({ code }) => `  | '${code}'`).join('\n');
writeFileSync(here('core/codes.ts'), `/** Every error code of the two services. */\nexport type Code =\n${union};\n`);

const { messages } = JSON.parse(readFileSync(new URL('errors/messages.json', contracts), 'utf8'));
const languages = Object.keys(messages['error.general.internal']).map((language) => `'${language}'`);
const keys = Object.keys(messages).map((key) => `  | '${key}'`).join('\n');
writeFileSync(
  here('messages/catalogue.ts'),
  `export type Language = ${languages.join(' | ')};

/** Every \`userMessageKey\` of the two services. */
export type MessageKey =
${keys};

/** What a guest or an operator reads. \`fa\` is for speakers of Dari and of Persian. */
export const messages: Readonly<Record<MessageKey, Readonly<Record<Language, string>>>> = ${JSON.stringify(messages, null, 2)};
`,
);

const { locales } = JSON.parse(readFileSync(new URL('locales/locales.json', contracts), 'utf8'));
writeFileSync(
  here('values/locales.ts'),
  `import type { LocaleInfo } from './locale.js';

/** The facts of every locale of the platform. */
export const locales: readonly LocaleInfo[] = ${JSON.stringify(locales, null, 2)};
`,
);

copyFileSync(here('../../LICENSE'), here('LICENSE'));
