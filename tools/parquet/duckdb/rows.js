// What ../rows.js prints, by SQL: `node rows.js FILE...`. DuckDB shares no code with the writer or with that reader, and looks at
// a file's types first.
import { DuckDBInstance } from '@duckdb/node-api'

const db = await (await DuckDBInstance.create(':memory:')).connect()
const rows = async (sql, ...values) => (await db.runAndReadAll(sql, values)).getRowObjectsJson()

// The types that files may have, physical and logical: those for which BigQuery's loader documents TIMESTAMP, INTEGER, STRING and BYTES.
const taken = /^(INT64 (TIMESTAMP_MICROS|INT_64)|BYTE_ARRAY UTF8|FIXED_LEN_BYTE_ARRAY none)$/

// Values are printed as they are stored.
const printed = {
  'TIMESTAMP WITH TIME ZONE': (c) => `epoch_us(${c})`,
  TIMESTAMP: (c) => `epoch_us(${c})`,
  BLOB: (c) => `lower(hex(${c}))`,
  BIGINT: (c) => `${c}`,
  VARCHAR: (c) => `${c}`,
}

const files = {}
for (const path of process.argv.slice(2)) {
  for (const c of await rows('SELECT name, type, type_length, coalesce(converted_type, logical_type, \'none\') AS logical, num_children FROM parquet_schema(?)', path)) {
    if (c.num_children === null && !taken.test(`${c.type} ${c.logical}`)) {
      throw new Error(`${path}: column ${c.name} is ${c.type} ${c.logical}, which files may not have`)
    }
  }
  const columns = (await rows('DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)', path)).map((c) => {
    const name = `"${c.column_name}"`
    if (!printed[c.column_type]) throw new Error(`${path}: column ${c.column_name} is ${c.column_type}`)
    return `CAST(${printed[c.column_type](name)} AS VARCHAR) AS ${name}`
  })
  files[path] = await rows(`SELECT ${columns.join(', ')} FROM read_parquet(?, hive_partitioning = false)`, path)
}
process.stdout.write(JSON.stringify(files))
