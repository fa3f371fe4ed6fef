import { type ColumnType, Unavailable } from '@tributary/core';
import type { Dialect } from '../merging/dialect.ts';
import { LEDGER, VERSIONS } from '../tables.ts';

/** A table with one row, whose update keeps loads apart. */
export const LOCK = '_tributary_lock';
/** Bytes of a `varchar` of which none is cut. */
const TEXT_BYTES = 16_777_216;

const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'number(38, 0)',
  numeric: 'number(38, 19)',
  double: 'float',
  timestamp: 'timestamp_tz',
  text: 'varchar',
  json: 'variant',
};

/** By the name in the catalog. */
const TYPE_OF: ReadonlyMap<string, ColumnType> = new Map([
  ['BOOLEAN', 'boolean'],
  ['NUMBER(38,0)', 'bigint'],
  ['NUMBER(38,19)', 'numeric'],
  ['FLOAT', 'double'],
  ['TIMESTAMP_TZ', 'timestamp'],
  ['VARIANT', 'json'],
]);

/** What is shorter than ours would cut or round. */
function typeIn(
  type: string,
  length: string | null,
  precision: string | null,
  scale: string | null,
): ColumnType | undefined {
  if (type === 'TEXT') return Number(length) >= TEXT_BYTES ? 'text' : undefined;
  return TYPE_OF.get(type === 'NUMBER' ? `NUMBER(${precision},${scale})` : type);
}

/** An identifier, in upper case as Snowflake makes of one without quotes. */
export const quoted = (name: string) => `"${name.toUpperCase().replaceAll('"', '""')}"`;

export function snowflakeDialect(database: string, schema: string): Dialect {
  const within = `${quoted(database)}.${quoted(schema)}`;
  const table = (name: string) => `${within}.${quoted(name)}`;
  return {
    quoted,
    table,
    placeholder: () => '?',
    types: TYPES,
    placement: () => '',

    cast(text, type) {
      if (type === 'text') return text;
      return type === 'json' ? `parse_json(${text})` : `cast(${text} as ${TYPES[type]})`;
    },

    textOf(value, type) {
      switch (type) {
        case 'text':
          return value;
        case 'boolean':
        case 'bigint':
          return `to_varchar(${value})`;
        case 'numeric':
          return `regexp_replace(to_varchar(${value}), '[.]?0+$', '')`;
        case 'timestamp':
          return `regexp_replace(to_varchar(convert_timezone('UTC', ${value}), 'YYYY-MM-DD"T"HH24:MI:SS.FF6') || 'Z', '000Z$', 'Z')`;
        case 'json':
          return `to_json(${value})`;
        case 'double':
          return undefined;
      }
    },

    async describe(session, names) {
      if (names?.length === 0) return new Map();
      const which = names === undefined ? '' : ` and c.table_name in (${names.map(() => '?').join(', ')})`;
      const catalog = `${quoted(database)}.information_schema`;
      const { rows } = await session.run(
        `select c.table_name, c.column_name, c.data_type, c.character_maximum_length, c.numeric_precision, c.numeric_scale
         from ${catalog}.columns c join ${catalog}.tables t
           on t.table_schema = c.table_schema and t.table_name = c.table_name
         where c.table_schema = ? and t.table_type = 'BASE TABLE'${which}`,
        [schema.toUpperCase(), ...(names ?? []).map((name) => name.toUpperCase())],
      );
      const described = new Map<string, Map<string, ColumnType | undefined>>();
      for (const [of, column, type, length = null, precision = null, scale = null] of rows) {
        if (typeof of !== 'string' || typeof column !== 'string' || typeof type !== 'string')
          throw new Unavailable('Snowflake did not describe its tables');
        // Names with small letters are another person's: no statement of ours means them.
        if (`${of}${column}` !== `${of}${column}`.toUpperCase()) continue;
        const columns = described.get(of.toLowerCase()) ?? new Map<string, ColumnType | undefined>();
        described.set(
          of.toLowerCase(),
          columns.set(column.toLowerCase(), typeIn(type, length, precision, scale)),
        );
      }
      return described;
    },
  };
}

/** Statements that make the loader's own tables where they are missing. */
export function createOwnTables({ table, quoted: q }: Dialect): readonly string[] {
  return [
    `create table if not exists ${table(LEDGER)} (${q('destination_id')} varchar, ${q('lane')} varchar,
      ${q('seq')} number(38, 0), ${q('batch')} varchar, ${q('ranges')} varchar, ${q('counts')} varchar,
      ${q('loaded_at')} timestamp_tz)`,
    `create table if not exists ${table(VERSIONS)} (${q('ucid')} varchar, ${q('version')} number(38, 0))`,
    `create table if not exists ${table(LOCK)} (${q('locked_at')} timestamp_tz)`,
  ];
}
