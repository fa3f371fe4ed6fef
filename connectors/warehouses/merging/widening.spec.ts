import { type ColumnType, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import type { Dialect, SqlSession } from './dialect.ts';
import { alterTable } from './warehouse.ts';

/** A table with one row, in an engine that commits each statement alone. */
class OneRow {
  readonly columns = new Map<string, { type: ColumnType; value: string | null }>([
    ['n', { type: 'bigint', value: '10' }],
  ]);
  /** Statements until the process ends. */
  left = Number.POSITIVE_INFINITY;

  readonly session: SqlSession = {
    run: async (statement) => {
      if (this.left === 0) throw new Unavailable('the process has ended');
      this.left -= 1;
      this.#run(statement);
      return { rows: [], count: 0 };
    },
  };

  #run(statement: string): void {
    const [, add, type] = /^alter table t add column (\S+) (\S+)$/.exec(statement) ?? [];
    if (add !== undefined) {
      expect(this.columns.has(add)).toBe(false);
      this.columns.set(add, { type: type as ColumnType, value: null });
      return;
    }
    const [, to, from] = /set (\S+) = text of (\S+) where/.exec(statement) ?? [];
    if (to !== undefined) return void Object.assign(this.#column(to), { value: this.#column(from).value });
    const [, before, after = ''] = /rename column (\S+) to (\S+)$/.exec(statement) ?? [];
    if (before !== undefined) {
      expect(this.columns.has(after)).toBe(false);
      this.columns.set(after, this.#column(before));
      this.columns.delete(before);
      return;
    }
    const [, dropped = ''] = /drop column (\S+)$/.exec(statement) ?? [];
    this.#column(dropped);
    this.columns.delete(dropped);
  }

  #column(name: string | undefined) {
    const column = this.columns.get(name ?? '');
    if (column === undefined) throw new Error(`no column ${name}`);
    return column;
  }
}

const dialect = {
  quoted: (name) => name,
  table: (name) => name,
  cast: (text, type) => `${text} as ${type}`,
  textOf: (value) => `text of ${value}`,
  types: { text: 'text' },
} as Omit<Partial<Dialect>, 'types'> as Dialect;

const widen = async (table: OneRow) => {
  const described = new Map([...table.columns].map(([name, { type }]) => [name, type] as const));
  const type = described.get('n');
  // As a plan: a column that is not there is added.
  const change =
    type === undefined
      ? { add: new Map([['n', 'text' as const]]), widen: new Map() }
      : { add: new Map(), widen: new Map([['n', { from: type, to: 'text' as const }]]) };
  await alterTable(table.session, dialect, { table: 't', ...change }, described);
};

it.each([0, 1, 2, 3, 4, 5])(
  'a column is widened with its values, although a process ended after %i statements',
  async (statements) => {
    const table = new OneRow();
    table.left = statements;
    await widen(table).catch((error: unknown) => expect(error).toBeInstanceOf(Unavailable));
    table.left = Number.POSITIVE_INFINITY;
    await widen(table);
    expect([...table.columns]).toEqual([['n', { type: 'text', value: '10' }]]);
  },
);
