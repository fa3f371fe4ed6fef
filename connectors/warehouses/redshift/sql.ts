import { type ColumnType, IDENTITY_MAP_TABLE, Unavailable } from '@tributary/core';
import type { Dialect } from '../merging/dialect.ts';
import { keyOf, LEDGER, VERSIONS } from '../tables.ts';

const TEXT = 'varchar(65535)';
const NUMERIC = 'numeric(38, 19)';

const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'bigint',
  numeric: NUMERIC,
  double: 'double precision',
  timestamp: 'timestamptz',
  text: TEXT,
  json: 'super',
};

/** By the name in the catalog: what is shorter would cut or round. */
const TYPE_OF: ReadonlyMap<string, ColumnType> = new Map([
  ['boolean', 'boolean'],
  ['bigint', 'bigint'],
  ['numeric(38,19)', 'numeric'],
  ['double precision', 'double'],
  ['timestamp with time zone', 'timestamp'],
  ['character varying(65535)', 'text'],
  ['super', 'json'],
]);

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** A text literal. */
export function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

export function redshiftDialect(schema: string): Dialect {
  const table = (name: string) => `${quoted(schema)}.${quoted(name)}`;
  return {
    quoted,
    table,
    placeholder: (index) => `$${index}`,
    types: TYPES,
    addsOneColumn: true,

    cast(text, type) {
      if (type === 'text') return text;
      // Redshift casts no text to a boolean.
      if (type === 'boolean') return `case ${text} when 'true' then true when 'false' then false end`;
      if (type === 'json') return `json_parse(${text})`;
      return `cast(${text} as ${TYPES[type]})`;
    },

    textOf(value, type) {
      switch (type) {
        case 'text':
          return value;
        case 'boolean':
          return `case when ${value} then 'true' when not ${value} then 'false' end`;
        case 'bigint':
          return `cast(${value} as ${TEXT})`;
        case 'numeric':
          return `regexp_replace(cast(${value} as ${TEXT}), '[.]?0+$', '')`;
        case 'timestamp':
          return `regexp_replace(to_char(${value} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '000Z$', 'Z')`;
        case 'json':
          return `json_serialize(${value})`;
        case 'double':
          return undefined;
      }
    },

    placement(name, columns) {
      const key = name === IDENTITY_MAP_TABLE ? 'ucid' : keyOf(name, columns);
      const distributed = key === undefined ? '' : ` diststyle key distkey (${quoted(key)})`;
      return columns.has('received_at') ? `${distributed} sortkey (${quoted('received_at')})` : distributed;
    },

    async describe(session, names) {
      if (names?.length === 0) return new Map();
      const which =
        names === undefined ? '' : ` and c.relname in (${names.map((_, at) => `$${at + 2}`).join(', ')})`;
      const { rows } = await session.run(
        `select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         join pg_catalog.pg_attribute a on a.attrelid = c.oid
         where n.nspname = $1 and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped${which}`,
        [schema, ...(names ?? [])],
      );
      const described = new Map<string, Map<string, ColumnType | undefined>>();
      for (const [of, column, type] of rows) {
        if (typeof of !== 'string' || typeof column !== 'string' || typeof type !== 'string')
          throw new Unavailable('the server did not describe its tables');
        const columns = described.get(of) ?? new Map<string, ColumnType | undefined>();
        described.set(of, columns.set(column, TYPE_OF.get(type)));
      }
      return described;
    },
  };
}

/** Statements that make the loader's own tables where they are missing. */
export function createOwnTables({ table }: Dialect): readonly string[] {
  return [
    `create table if not exists ${table(LEDGER)} (destination_id varchar(256), lane varchar(256), seq bigint,
      batch varchar(256) not null, ranges ${TEXT} not null, counts ${TEXT} not null, loaded_at timestamptz not null)`,
    `create table if not exists ${table(VERSIONS)} (ucid varchar(256), version bigint not null)`,
  ];
}
