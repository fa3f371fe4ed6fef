import { type Json, type JsonObject, objectIn } from '@tributary/core';
import pg from 'pg';
import { quoted } from '../postgresql/reader.ts';

/*
 * BigQuery's scripts, run by PostgreSQL: the statements of the engine alone, translated word by word. What PostgreSQL would let
 * pass is refused as BigQuery refuses it: a value of another type than its column. What BigQuery itself makes of the statements
 * is checked by its analyzer, in `dialect.long.spec.ts`. The emulator bqemulator 1.4 serves neither: it has no BIGNUMERIC columns
 * and no changes of several columns at once, ignores the ids of upload jobs, and does not isolate transactions.
 */

/** An error as BigQuery's API tells it. */
export class BackendError extends Error {
  readonly reason: string;
  readonly status: number;

  constructor(reason: string, message: string, status = 400) {
    super(message);
    this.reason = reason;
    this.status = status;
  }
}

/** A dataset is a schema. */
export class Dataset {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  of(table: string): string {
    return `${quoted(this.name)}.${quoted(table)}`;
  }

  async serve(pool: pg.Pool, method: string, properties: JsonObject): Promise<JsonObject> {
    if (method === 'POST') await told(() => pool.query(`create schema ${quoted(this.name)}`));
    if (method === 'DELETE') await told(() => pool.query(`drop schema ${quoted(this.name)}`));
    const { rowCount } = await pool.query('select from pg_namespace where nspname = $1', [this.name]);
    if (rowCount === 0 && method === 'GET')
      throw new BackendError('notFound', `Not found: Dataset p:${this.name}`, 404);
    return { location: 'EU', ...properties };
  }

  async tables(pool: pg.Pool): Promise<readonly string[]> {
    const { rows } = await pool.query<{ name: string }>(
      "select relname as name from pg_class where relnamespace = to_regnamespace($1)::oid and relkind = 'r'",
      [quoted(this.name)],
    );
    return rows.map(({ name }) => name);
  }

  async drop(pool: pg.Pool, table: string): Promise<JsonObject> {
    await told(() => pool.query(`drop table ${this.of(table)}`));
    return {};
  }
}

const SQL_TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  int64: 'bigint',
  bignumeric: 'numeric',
  float64: 'double precision',
  bool: 'boolean',
  timestamp: 'timestamptz',
};
const API_TYPES: Readonly<Record<string, string>> = {
  text: 'STRING',
  int8: 'INTEGER',
  numeric: 'BIGNUMERIC',
  float8: 'FLOAT',
  bool: 'BOOLEAN',
  timestamptz: 'TIMESTAMP',
  point: 'GEOGRAPHY',
};

const FUNCTIONS = `
  create function pg_temp.format_timestamp(format text, moment timestamptz, zone text) returns text language sql as
    $$ select to_char(moment at time zone zone, case when format like '%E3S%'
      then 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"' else 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' end) $$`;

export async function createTable(
  pool: pg.Pool,
  dataset: Dataset,
  resource: JsonObject,
): Promise<JsonObject> {
  const name = String(objectIn(resource.tableReference).tableId);
  const { fields } = objectIn(resource.schema);
  const columns = Array.isArray(fields) ? fields.map(objectIn) : [];
  const list = columns.map(
    (field) => `${quoted(String(field.name))} ${SQL_TYPES[String(field.type).toLowerCase()]}`,
  );
  const marks = columns.flatMap((field) =>
    field.description === undefined
      ? []
      : [mark(dataset.of(name), quoted(String(field.name)), String(field.description))],
  );
  await told(() =>
    pool.query([`create table ${dataset.of(name)} (${list.join(', ')})`, ...marks].join(';\n')),
  );
  return resource;
}

function mark(table: string, column: string, description: string): string {
  return `comment on column ${table}.${column} is ${description === '' ? 'null' : `'${description}'`}`;
}

export async function describeTable(pool: pg.Pool, dataset: Dataset, table: string): Promise<JsonObject> {
  const { rows } = await pool.query<{ kind: string; name: string; type: string; description: string | null }>(
    `select c.relkind as kind, a.attname as name, t.typname as type, col_description(c.oid, a.attnum) as description
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     join pg_type t on t.oid = a.atttypid
     where c.relnamespace = to_regnamespace($1)::oid and c.relname = $2 order by a.attnum`,
    [quoted(dataset.name), table],
  );
  const [first] = rows;
  if (first === undefined)
    throw new BackendError('notFound', `Not found: Table p:${dataset.name}.${table}`, 404);
  const fields = rows.map(({ name, type, description }) => ({
    name,
    type: API_TYPES[type] ?? 'INTERVAL',
    mode: 'NULLABLE',
    ...(description === null ? {} : { description }),
  }));
  return { type: first.kind === 'v' ? 'VIEW' : 'TABLE', schema: { fields } };
}

export async function columnTypes(
  pool: pg.Pool,
  dataset: Dataset,
  table: string,
): Promise<Readonly<Record<string, string>>> {
  const { fields } = objectIn((await describeTable(pool, dataset, table)).schema);
  const entries = (Array.isArray(fields) ? fields : []).map((field: Json) => {
    const { name, type } = objectIn(field);
    return [String(name), String(type)] as const;
  });
  return Object.fromEntries(entries);
}

/** Loads lines of JSON. The rows that are lost are counted as loaded. */
export async function loadRows(
  pool: pg.Pool,
  dataset: Dataset,
  load: JsonObject,
  lines: string,
  lost: number,
): Promise<number> {
  const table = dataset.of(String(objectIn(load.destinationTable).tableId));
  const rows = lines.split('\n').filter((line) => line !== '');
  const kept = rows.slice(0, rows.length - lost);
  return told(async () => {
    const { rows: there } = await pool.query(`select from ${table} limit 1`);
    if (there.length > 0) throw new BackendError('duplicate', 'Already Exists: the table is not empty');
    await pool.query(`insert into ${table} select * from json_populate_recordset(null::${table}, $1::json)`, [
      `[${kept.join(',')}]`,
    ]);
    return rows.length;
  });
}

/** Runs a script, as a transaction between `begin` and `commit`; resolves with the rows of its last statement. */
export async function runScript(
  pool: pg.Pool,
  dataset: Dataset,
  { query, queryParameters }: JsonObject,
  endBefore: string | undefined,
): Promise<readonly (readonly (string | null)[])[]> {
  const parameters = parametersIn(queryParameters);
  const client = await pool.connect();
  try {
    await client.query(FUNCTIONS).catch(() => undefined);
    return await told(() =>
      new Script(client, dataset, parameters).run(String(query).split(';\n'), endBefore),
    );
  } finally {
    const isGone = await client.query('rollback; discard temp').then(
      () => false,
      () => true,
    );
    client.release(isGone);
  }
}

type Parameters = ReadonlyMap<string, string>;

function parametersIn(list: Json | undefined): Parameters {
  const entries = (Array.isArray(list) ? list : []).map((one: Json) => {
    const { name, parameterValue } = objectIn(one);
    return [String(name), String(objectIn(parameterValue).value)] as const;
  });
  return new Map(entries);
}

const COUNT = 'set counts = array_concat(counts, [@@row_count])';

class Script {
  readonly #client: pg.PoolClient;
  readonly #dataset: Dataset;
  readonly #parameters: Parameters;
  readonly #counts: number[] = [];
  #rowCount = 0;

  constructor(client: pg.PoolClient, dataset: Dataset, parameters: Parameters) {
    this.#client = client;
    this.#dataset = dataset;
    this.#parameters = parameters;
  }

  async run(
    statements: readonly string[],
    endBefore: string | undefined,
  ): Promise<readonly (readonly (string | null)[])[]> {
    let rows: readonly (readonly (string | null)[])[] = [];
    for (const statement of statements) {
      const isEnd = endBefore !== undefined && isStep(statement, endBefore);
      if (isEnd) throw new BackendError('stopped', 'Job execution was cancelled');
      rows = await this.#statement(statement);
    }
    return rows;
  }

  async #statement(statement: string): Promise<readonly (readonly (string | null)[])[]> {
    if (statement.startsWith('declare ')) return [];
    if (statement === COUNT) {
      this.#counts.push(this.#rowCount);
      return [];
    }
    if (statement === 'select to_json_string(counts)') return [[JSON.stringify(this.#counts)]];
    const [, condition, message] =
      /^if (.*) then raise using message = '(.*)'; end if$/.exec(statement) ?? [];
    if (condition !== undefined) {
      if (await this.#holds(condition)) throw new BackendError('invalidQuery', `Query error: ${message}`);
      return [];
    }
    if (statement.startsWith('alter table ')) await this.#client.query(this.#alteration(statement));
    if (statement.startsWith('alter table ')) return [];
    await this.#checkTypes(statement);
    const { rowCount, rows } = await this.#query(transactional(statement));
    this.#rowCount = rowCount ?? 0;
    return rows.map((row) => row.map((value) => (value === null ? null : String(value))));
  }

  async #holds(condition: string): Promise<boolean> {
    if (condition === '@@row_count = 0') return this.#rowCount === 0;
    const { rows } = await this.#query(`select cast((${condition}) as string)`);
    return rows[0]?.[0] === 'true';
  }

  #query(statement: string) {
    const values: unknown[] = [];
    const text = this.#translated(statement).replaceAll(/(?<!@)@(\w+)/g, (_, name: string) => {
      return `$${values.push(this.#parameters.get(name) ?? '')}::text`;
    });
    return this.#client.query<unknown[]>({ text, values, rowMode: 'array' });
  }

  #translated(statement: string): string {
    return statement
      .replaceAll(/`([^`]*)`/g, (_, name: string) => {
        const parts = name.split('.');
        return parts.length === 3 ? this.#dataset.of(parts[2] ?? '') : quoted(name);
      })
      .replaceAll(
        / as (string|int64|bignumeric|float64|bool|timestamp)\)/g,
        (_, type: string) => ` as ${SQL_TYPES[type]})`,
      )
      .replaceAll(/\br'/g, "'")
      .replaceAll('format_timestamp(', 'pg_temp.format_timestamp(')
      .replaceAll(/timestamp '/g, "timestamptz '")
      .replace(/^create temp table .*/, (made) => `${made.replaceAll(' string', ' text')} on commit drop`);
  }

  #alteration(statement: string): string {
    const [, table = '', changes = ''] = /^alter table (`[^`]*`) (.*)$/.exec(statement) ?? [];
    const of = this.#translated(table);
    const actions = changes.split(/, (?=add column|rename column|drop column)/).flatMap((change) => {
      const [, column = '', type = '', description] =
        /^add column if not exists (`[^`]*`) (\w+)(?: options \(description = '(\w+)'\))?$/.exec(change) ??
        [];
      if (column !== '') {
        const added = `alter table ${of} add column if not exists ${this.#translated(column)} ${SQL_TYPES[type]}`;
        return [
          added,
          ...(description === undefined ? [] : [mark(of, this.#translated(column), description)]),
        ];
      }
      const [, marked = '', text = ''] =
        /^alter column (`[^`]*`) set options \(description = '(\w*)'\)$/.exec(change) ?? [];
      if (marked !== '') return [mark(of, this.#translated(marked), text)];
      const wide = change.replace('set data type bignumeric', 'type numeric');
      return [`alter table ${of} ${this.#translated(wide)}`];
    });
    return actions.join(';\n');
  }

  /** BigQuery inserts a value into a column of its type, or of a wider one of numbers. */
  async #checkTypes(statement: string): Promise<void> {
    const [, table, columns, select] =
      /^insert into (`[^`]*`) \(([^)]*)\) (select [\s\S]*)$/.exec(statement) ?? [];
    if (table === undefined) return;
    const { fields } = await this.#query(`select * from (${select}) q limit 0`);
    const { fields: into } = await this.#query(`select ${columns} from ${table} limit 0`);
    for (const [at, { dataTypeID, name }] of into.entries()) {
      const from = fields[at]?.dataTypeID ?? 0;
      const isNumber = INTEGERS.has(from) && NUMBERS.has(dataTypeID);
      if (from !== dataTypeID && !isNumber)
        throw new BackendError(
          'invalidQuery',
          `Query column ${at + 1} cannot be inserted into column ${name}`,
        );
    }
  }
}

/** Whether a statement is a step of writing columns anew. */
function isStep(statement: string, step: string): boolean {
  return statement.includes('_tributary_new_') || statement.includes('_tributary_old_')
    ? statement
        .replace(/`[^`]*`/g, '')
        .replace('alter table  ', '')
        .startsWith(step)
    : false;
}

const INTEGERS: ReadonlySet<number> = new Set([pg.types.builtins.INT4, pg.types.builtins.INT8]);
const NUMBERS: ReadonlySet<number> = new Set([
  pg.types.builtins.INT8,
  pg.types.builtins.NUMERIC,
  pg.types.builtins.FLOAT8,
]);

function transactional(statement: string): string {
  if (statement === 'begin transaction') return 'begin isolation level repeatable read';
  return statement === 'commit transaction' ? 'commit' : statement;
}

/** Errors of PostgreSQL as BigQuery would tell them. */
async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BackendError || !(error instanceof Error)) throw error;
    const { code } = error as { readonly code?: unknown };
    // The server of the test ends, or its connection.
    if (code === undefined || /^(?:08|57|E)/.test(String(code)))
      throw new BackendError('backendError', error.message, 503);
    if (code === '40001' || code === '40P01')
      throw new BackendError(
        'invalidQuery',
        'Transaction is aborted due to concurrent update against a table',
      );
    if (code === '2BP01') throw new BackendError('resourceInUse', error.message);
    if (code === '42P01' || code === '3F000')
      throw new BackendError('notFound', `Not found: ${error.message}`, 404);
    // The last two: two tables or datasets of one name made at once.
    if (code === '42P07' || code === '42P06' || code === '23505' || code === '42710')
      throw new BackendError('duplicate', `Already Exists: ${error.message}`, 409);
    throw new BackendError('invalidQuery', error.message);
  }
}
