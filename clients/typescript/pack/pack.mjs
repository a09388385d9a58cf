// Packs the package, installs it in a fresh project, compiles and bundles what uses it there. Downloads nothing.
//   node pack/pack.mjs DIRECTORY
// The directory is then ready for `node --test DIRECTORY/live.test.mjs` within the platform.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

import { build } from 'esbuild';

const [project] = process.argv.slice(2);
const here = fileURLToPath(new URL('..', import.meta.url));
const run = (program, args, cwd) => execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], timeout: 300_000 });

// The pack builds itself, and has what users need and nothing else.
const [packed] = JSON.parse(run('npm', ['pack', '--json', '--silent', '--pack-destination', project], here));
const files = packed.files.map(({ path }) => path);
assert.deepEqual(files.filter((path) => !path.startsWith('dist/')).sort(), ['LICENSE', 'README.md', 'package.json']);
assert.deepEqual(files.filter((path) => !/\.(js|d\.ts)$/.test(path) && path.startsWith('dist/')), []);
assert.deepEqual(files.filter((path) => /test|live/.test(path)), []);
console.log(`pack: ${files.length} files, ${packed.size} bytes`);

cpSync(join(here, 'pack/project'), project, { recursive: true });
cpSync(join(here, 'testing/browser.mjs'), join(project, 'browser.mjs'));
writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'storefront', private: true, type: 'module' }));
run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--loglevel=error', join(project, packed.filename)], project);
const installed = join(project, 'node_modules/@melmastoon/bff');
const { exports, private: unpublished } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
assert.equal(unpublished, undefined);

// Every entry is there, and loads in Node: both ways, where it can require modules.
for (const [path, entry] of Object.entries(exports)) {
  if (typeof entry !== 'object' || path.endsWith('/worker')) continue;
  const name = `@melmastoon/bff${path.slice(1)}`;
  run(process.execPath, ['--input-type=module', '-e', `await import('${name}')`], project);
}
if (process.features.require_module) run(process.execPath, ['--no-warnings', '-e', "new (require('@melmastoon/bff').CookieJar)()"], project);

// Types, in every way of resolution and with the library's own declarations checked, those of the language itself not.
const tsc = join(here, 'node_modules/typescript/bin/tsc');
const strict = ['--noEmit', '--skipDefaultLibCheck', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--target', 'es2022'];
const node = ['--typeRoots', join(here, 'node_modules/@types'), '--types', 'node', '--lib', 'es2022'];
const browser = ['--lib', 'es2022,dom,dom.iterable'];
for (const [name, ...args] of [
  ['NodeNext', '--module', 'nodenext', ...node, 'everywhere.ts', 'types.ts', 'node.ts', 'commonjs.cts'],
  ['Bundler', '--module', 'es2022', '--moduleResolution', 'bundler', ...browser, 'everywhere.ts', 'types.ts', 'page.ts'],
  ['Node10', '--module', 'es2022', '--moduleResolution', 'node10', ...node, 'everywhere.ts', 'types.ts', 'node.ts'],
]) {
  try {
    run(process.execPath, [tsc, ...strict, ...args], project);
  } catch (error) {
    console.error(error.stdout);
    throw new Error(`it does not compile with ${name}`);
  }
  console.log(`tsc --strict, ${name}: compiles`);
}

// Bundles for browsers. What is not used is not in them.
const bundle = async (name, source) => {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: project }, bundle: true, minify: true, format: 'esm', target: 'es2022', write: false, logLevel: 'warning',
  });
  const [{ contents, text }] = outputFiles;
  const size = gzipSync(contents, { level: 9 }).length;
  console.log(`bundle, ${name}: ${contents.length} bytes, ${size} with gzip`);
  return { text, size };
};
const keep = (names, from) => `import { ${names} } from '@melmastoon/bff${from}'; console.log(${names});`;
const plain = await bundle('client of guests', keep('ConsumerClient', '/consumer'));
assert.equal((await bundle('the same from the root', keep('ConsumerClient', ''))).text.length, plain.text.length);
await bundle('with pages and solver', keep('ConsumerClient, searchPages, solve', ''));
await bundle('money and days', `import * as values from '@melmastoon/bff/values'; console.log(values);`);
await bundle('client of staff', keep('BackofficeClient, indexedDbStore', '/backoffice'));
assert.ok(!/maxnumber|Set-Cookie|indexedDB|DPoP/.test(plain.text), 'the plain client has what it does not use');
assert.ok(plain.size < 3_000, `the plain client has grown to ${plain.size} bytes`);

// The page that Chromium opens.
await build({ entryPoints: [join(project, 'page.ts')], outfile: join(project, 'page.js'), bundle: true, minify: true, format: 'iife', target: 'es2022', logLevel: 'warning' });
assert.ok(readdirSync(project).includes('page.js'));
