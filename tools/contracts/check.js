// Holds the contracts to the tools that other people read them with: ajv in strict mode,
// Redocly, Spectral and the AsyncAPI parser. Whatever one of them says is a failure.
// A rule that is wrong about us is switched off here or in contracts/redocly.yaml, with
// the reason.
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { Parser, fromFile } from '@asyncapi/parser';
import { lint, loadConfig } from '@redocly/openapi-core';
import spectralCore from '@stoplight/spectral-core';
import * as parsers from '@stoplight/spectral-parsers';
import * as rulesets from '@stoplight/spectral-rulesets';
import Ajv from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import YAML from 'yaml';

const contracts = fileURLToPath(new URL('../../contracts/', import.meta.url));
const services = ['consumer', 'backoffice'];
const read = (path) => readFileSync(contracts + path, 'utf8');

let failures = 0;
const fail = (tool, where, what) => {
  failures++;
  console.error(`${tool}: ${where}: ${what}`);
};

const timed = async (name, run) => {
  const begin = performance.now();
  const did = await run();
  console.log(`${name}: ${did} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
};

const validator = (options) => {
  const ajv = new Ajv({ allErrors: true, ...options });
  (formats.default ?? formats)(ajv);
  return ajv;
};

// Every schema compiles in strict mode, and every event of contracts/examples follows
// the schema that it names. Each schema has one.
function events() {
  const ajv = validator({ strict: true });
  const schemas = new Map();
  for (const path of readdirSync(contracts + 'events', { recursive: true }).filter((p) => p.endsWith('.json'))) {
    const schema = JSON.parse(read('events/' + path));
    schemas.set(schema.$id, path);
    ajv.addSchema(schema);
  }
  const missing = new Set();
  for (const [id, path] of schemas) {
    try {
      ajv.getSchema(id);
    } catch (e) {
      fail('ajv', path, e.message);
    }
    if (path.startsWith('bff-')) missing.add(id);
  }
  let count = 0;
  for (const path of readdirSync(contracts + 'examples/events', { recursive: true }).filter((p) => p.endsWith('.json'))) {
    const event = JSON.parse(read('examples/events/' + path));
    const validate = ajv.getSchema(event.envelope.schemaUri);
    if (!validate?.(event)) fail('ajv', path, ajv.errorsText(validate?.errors));
    missing.delete(event.envelope.schemaUri);
    count++;
  }
  for (const id of missing) fail('ajv', schemas.get(id), 'has no example in contracts/examples/events');
  return `${schemas.size} event schemas in strict mode, ${count} events`;
}

// Every example of the OpenAPI documents follows its schema, and no object is so free
// that generated types are of no use.
function examples() {
  let count = 0;
  for (const service of services) {
    const doc = YAML.parse(read(`openapi/${service}.yaml`));
    const ajv = validator({ strict: false, validateSchema: false });
    ajv.addSchema({ ...doc, $id: service });
    const pointer = (at) => at.map((p) => encodeURIComponent(String(p).replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
    const walk = (node, at) => {
      if (node === null || typeof node !== 'object') return;
      if (node.schema && (node.example !== undefined || node.examples)) {
        const validate = ajv.compile({ $ref: `${service}#/${pointer([...at, 'schema'])}` });
        const values = node.examples ? Object.entries(node.examples).map(([k, v]) => [k, resolve(doc, v).value]) : [['example', node.example]];
        for (const [name, value] of values) {
          if (value === undefined) continue;
          count++;
          if (!validate(value)) fail('ajv', `${service} ${at.join('/')} ${name}`, ajv.errorsText(validate.errors));
        }
      }
      if (node.type === 'object' && !at.includes('examples') && isFree(node, at)) {
        fail('types', `${service} ${at.join('/')}`, 'becomes Record<string, never>: give it properties, or additionalProperties: true');
      }
      for (const [k, v] of Object.entries(node)) walk(v, [...at, k]);
    };
    walk(doc, []);
  }
  return `${count} examples of the OpenAPI documents`;
}

const isFree = (schema, at) =>
  schema.maxProperties !== 0 && at.at(-2) !== 'allOf' &&
  !['properties', 'additionalProperties', 'patternProperties', 'allOf', 'oneOf', 'anyOf', '$ref'].some((k) => k in schema);

const resolve = (doc, node) => (node.$ref ? node.$ref.slice(2).split('/').reduce((d, k) => d[k.replaceAll('~1', '/').replaceAll('~0', '~')], doc) : node);

async function redocly() {
  const config = await loadConfig({ configPath: contracts + 'redocly.yaml' });
  for (const service of services) {
    for (const p of await lint({ ref: `${contracts}openapi/${service}.yaml`, config })) {
      fail('redocly', `${service} ${p.location[0]?.pointer}`, `${p.ruleId}: ${p.message}`);
    }
  }
  return 'recommended, both OpenAPI documents';
}

// The rules that are off say something of us that is not so.
const spectralRules = {
  openapi: { extends: [rulesets.oas] },
  asyncapi: {
    extends: [rulesets.asyncapi],
    rules: {
      // 3.1.0 only adds a protocol that we do not use, and fewer tools read it.
      'asyncapi-latest-version': 'off',
      // There is a page and no mailbox.
      'asyncapi-info-contact-properties': 'off',
    },
  },
};

async function spectral(kind) {
  const { Spectral, Document } = spectralCore;
  for (const service of services) {
    const path = `${contracts}${kind}/${service}.yaml`;
    const linter = new Spectral();
    linter.setRuleset(spectralRules[kind]);
    for (const p of await linter.run(new Document(readFileSync(path, 'utf8'), (parsers.default ?? parsers).Yaml, path))) {
      fail('spectral', `${kind} ${service} ${p.path.join('/')}`, `${p.code}: ${p.message}`);
    }
  }
  return `both documents`;
}

async function asyncapi() {
  let channels = 0;
  for (const service of services) {
    const { document, diagnostics } = await fromFile(new Parser(), `${contracts}asyncapi/${service}.yaml`).parse();
    for (const d of diagnostics.filter((d) => d.severity === 0)) fail('asyncapi', `${service} ${d.path.join('/')}`, d.message);
    if (!document) fail('asyncapi', service, 'cannot be parsed');
    channels += document?.channels().length ?? 0;
  }
  return `${channels} channels`;
}

await timed('ajv', events);
await timed('ajv', examples);
await timed('redocly', redocly);
await timed('spectral oas', () => spectral('openapi'));
await timed('spectral asyncapi', () => spectral('asyncapi'));
await timed('asyncapi parser', asyncapi);
if (failures > 0) {
  console.error(`${failures} findings`);
  process.exit(1);
}
