import { hash } from 'node:crypto';
import { type ColumnType, joinColumnTypes, type TableChange, type TableColumns } from '@tributary/core';
import { type Dialect, type SqlSession, StatementRefused } from './dialect.ts';

/*
 * Engines that do not change the type of a column get a second one, which takes its place:
 *
 *     add `new`, copy into it, rename the column to `old`, rename `new` to the column, drop `old`
 *
 * Where each of these is durable by itself, a crash leaves a state that tells how far it came, and `alterTable` goes on there:
 * the column and `new`: begin again; `new` and `old`: rename `new`; the column and `old`: drop `old`.
 */

const newName = (column: string) => `_tributary_new_${hash('sha256', column).slice(0, 16)}`;
const oldName = (column: string) => `_tributary_old_${hash('sha256', column).slice(0, 16)}`;

/** Makes a table or changes its columns, from what it has now. Rejects with `StatementRefused`. */
export async function alterTable(
  session: SqlSession,
  dialect: Dialect,
  { table, add, widen }: TableChange,
  described: TableColumns | undefined,
): Promise<void> {
  if (described === undefined) {
    await session.run(dialect.createTable(table, add));
    return;
  }
  const wanted = new Map([
    ...add,
    ...[...widen].map(([column, { to }]): [string, ColumnType] => [column, to]),
  ]);
  const missing = new Map<string, ColumnType>();
  for (const [column, to] of wanted) {
    const steps = new ColumnSteps(session, dialect, table, column);
    const [isThere, hasNew, hasOld] = [column, newName(column), oldName(column)].map((name) =>
      described.has(name),
    );
    if (!isThere && hasNew && hasOld) {
      await steps.takePlace();
      continue;
    }
    if (isThere && hasNew) await steps.drop(newName(column));
    if (isThere && hasOld) await steps.drop(oldName(column));
    const from = described.get(column);
    if (!isThere) missing.set(column, to);
    // Another load may have made the column since, or widened it.
    else if (from !== undefined && from !== to && joinColumnTypes(from, to) === to)
      await steps.widen(from, to);
  }
  if (missing.size > 0)
    for (const statement of dialect.addColumns(table, missing)) await session.run(statement);
}

/** What is done about one column. */
class ColumnSteps {
  readonly #session: SqlSession;
  readonly #dialect: Dialect;
  readonly #alter: string;
  readonly #table: string;
  readonly #column: string;

  constructor(session: SqlSession, dialect: Dialect, table: string, column: string) {
    this.#session = session;
    this.#dialect = dialect;
    this.#table = table;
    this.#column = column;
    this.#alter = `alter table ${dialect.table(table)}`;
  }

  async widen(from: ColumnType, to: ColumnType): Promise<void> {
    const { quoted, cast, table, textOf } = this.#dialect;
    const value = to === 'text' ? textOf(quoted(this.#column), from) : cast(quoted(this.#column), to);
    if (value === undefined) throw new StatementRefused(`no text tells a ${from} exactly`);
    const made = newName(this.#column);
    for (const statement of this.#dialect.addColumns(this.#table, new Map([[made, to]])))
      await this.#session.run(statement);
    await this.#session.run(
      `update ${table(this.#table)} set ${quoted(made)} = ${value} where ${quoted(this.#column)} is not null`,
    );
    await this.#rename(this.#column, oldName(this.#column));
    await this.takePlace();
  }

  async takePlace(): Promise<void> {
    await this.#rename(newName(this.#column), this.#column);
    await this.drop(oldName(this.#column));
  }

  async drop(name: string): Promise<void> {
    await this.#session.run(`${this.#alter} drop column ${this.#dialect.quoted(name)}`);
  }

  async #rename(from: string, to: string): Promise<void> {
    const { quoted } = this.#dialect;
    await this.#session.run(`${this.#alter} rename column ${quoted(from)} to ${quoted(to)}`);
  }
}
