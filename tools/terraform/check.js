// Holds a file of Terraform to the provider's own types: `node check.js main.tf`. Names of resources and arguments, nesting, and what is
// required; not the types of values, references or what the provider computes.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import { parse } from '@cdktf/hcl2json'

const provider = dirname(createRequire(import.meta.url).resolve('@cdktf/provider-google/package.json')) + '/lib/'
const camel = (name) => name.replace(/_([a-z0-9])/g, (_, c) => c.toUpperCase())
const meta = new Set(['for_each', 'count', 'depends_on', 'provider', 'lifecycle'])
const problems = []

// interfaces of a resource: name → argument → {type, required}.
function interfaces(dir) {
  const text = readFileSync(`${provider}${dir}/index.d.ts`, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')
  const all = {}
  for (const [, name, body] of text.matchAll(/export interface (\w+)[^{]*\{([\s\S]*?)\n\}/g)) {
    all[name] = {}
    for (const [, argument, optional, type] of body.matchAll(/readonly (\w+)(\?)?: ([^;{]+|\{[^}]*\})/g)) all[name][argument] = { type, required: !optional }
  }
  return all
}

function check(where, types, name, block) {
  const known = types[name]
  const given = { ...block }
  for (const [argument, bodies] of Object.entries(block.dynamic ?? {})) given[argument] = bodies.flatMap((b) => b.content)
  delete given.dynamic
  for (const [argument, value] of Object.entries(given)) {
    if (meta.has(argument)) continue
    const found = known[camel(argument)]
    if (!found || argument !== argument.toLowerCase()) {
      problems.push(`${where}: there is no argument ${argument}`)
      continue
    }
    const nested = found.type.match(/^\w+/)?.[0]
    if (types[nested]) for (const inner of [value].flat()) check(`${where}.${argument}`, types, nested, inner)
  }
  for (const [argument, { required }] of Object.entries(known)) {
    if (required && !Object.keys(given).some((a) => camel(a) === argument)) problems.push(`${where}: ${argument} is missing`)
  }
}

function checkAll(file) {
  let count = 0
  for (const [kind, prefix] of [['resource', ''], ['data', 'data-google-']]) {
    for (const [type, named] of Object.entries(file[kind] ?? {})) {
      const dir = prefix + type.replace(/^google_/, '').replaceAll('_', '-')
      if (!existsSync(provider + dir)) {
        problems.push(`${type}: there is no such ${kind}`)
        continue
      }
      const types = interfaces(dir)
      const config = Object.keys(types).find((n) => n.toLowerCase() === (dir.replaceAll('-', '') + 'config').toLowerCase())
      for (const [name, blocks] of Object.entries(named)) for (const block of blocks) check(`${type}.${name}`, types, config, block), count++
    }
  }
  return count
}

const path = process.argv[2]
const text = readFileSync(path, 'utf8')
const file = await parse(path, text)
const count = checkAll(file)

// What the seeds say of keeping, and the least rights that do.
const expect = (what, ok) => ok || problems.push(what)
const { google_pubsub_topic: topic, google_pubsub_subscription: subscription, google_storage_bucket: bucket } = file.resource
expect('topics keep 7 d, dead letters 14 d', /dead_letters.*\? "1209600s" : "604800s"/.test(topic.own[0].message_retention_duration))
expect('the subscriptions of dead letters keep 14 d', subscription.dead_letters[0].message_retention_duration === '1209600s')
expect('the retention of the heads is locked, for seven years', bucket.audit_heads[0].retention_policy[0].is_locked && bucket.audit_heads[0].retention_policy[0].retention_period >= 7 * 365 * 86400)
const least = ['roles/pubsub.publisher', 'roles/pubsub.subscriber', 'roles/pubsub.viewer', 'roles/storage.objectCreator', 'roles/storage.legacyBucketReader']
for (const [role] of text.replace(/#.*/g, '').matchAll(/roles\/[\w.]+/g)) expect(`${role} is more than is needed`, least.includes(role))

// A checker that finds nothing proves nothing.
const found = problems.length
for (const [right, wrong] of [['retry_policy {', 'retry_polcy {'], ['minimum_backoff ', 'minimum_backof '], ['  name                    = each.key\n', ''], ['"google_storage_bucket" "', '"google_storage_buckets" "']]) {
  const before = problems.length
  if (!text.includes(right)) throw new Error(`${right} is not there`)
  checkAll(await parse(path, text.replace(right, wrong)))
  if (problems.length === before) throw new Error(`${wrong || 'a missing argument'} is not found`)
}
problems.length = found
for (const p of problems) console.error(`${path}: ${p}`)
console.log(`${path}: ${count} resources, ${found} problems`)
process.exit(found ? 1 : 0)
