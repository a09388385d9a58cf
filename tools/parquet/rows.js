// Prints the rows of Parquet files as JSON, by file: `node rows.js FILE...`. The
// exports of the audit lake are written by another library, so that a file which only
// its own writer can read is found out.
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'

const text = new TextDecoder('utf-8', { fatal: true })

// Values are printed as they are stored: a Date would lose the microseconds.
const parsers = {
  timestampFromMicroseconds: (micros) => micros,
  stringFromBytes: (bytes) => bytes && text.decode(bytes),
}

function printable(value) {
  if (value === undefined || value === null) return null
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  return value
}

const files = {}
for (const path of process.argv.slice(2)) {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(path), parsers })
  files[path] = rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, printable(value)])))
}
process.stdout.write(JSON.stringify(files))
