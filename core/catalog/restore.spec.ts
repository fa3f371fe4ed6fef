import { describe, expect, it } from 'vitest';
import type { LogEntry, ReadResult } from '../log/event-log.ts';
import { Unavailable } from '../primitives/errors.ts';
import { AT, contract, foldAll, workspace } from './fold/catalog.fixture.ts';
import { UnknownFact } from './fold/fold.ts';
import {
  type CatalogEntry,
  CatalogGap,
  type RewriteRecord,
  restoreState,
  rewriteRecords,
} from './rewrite.ts';
import { rowsOf } from './rows.ts';

const FACTS = [workspace(), contract('c1')];
const begun = (rewrite: string): RewriteRecord => ({
  v: 1,
  type: 'catalog.rewrite_begun',
  rewrite,
  by: 'operator:catalog',
  at: AT,
});
const rewriteOf = (rewrite: string, facts = FACTS): readonly RewriteRecord[] => [
  begun(rewrite),
  ...rewriteRecords(rewrite, rowsOf(foldAll(facts).state)),
];

/** A log of one entry a read that keeps nothing below `first`. */
class ShortLog {
  readonly #entries: readonly CatalogEntry[];
  first: number;
  reads = 0;

  constructor(entries: readonly CatalogEntry[], first: number) {
    this.#entries = entries;
    this.first = first;
  }

  async end(): Promise<number> {
    return this.#entries.length;
  }

  async read(_topic: string, _partition: number, from: number): Promise<ReadResult> {
    this.reads++;
    const offset = Math.max(from, this.first);
    const entry = this.#entries[offset];
    if (entry === undefined) return { entries: [], next: from };
    const position = { topic: 'catalog', partition: 0, offset, index: 0 };
    const read: LogEntry = { key: '', value: JSON.stringify(entry), headers: {}, timestamp: 0, position };
    return { entries: [read], next: offset + 1 };
  }
}

describe('a state is restored', () => {
  it('from the rows at the offset, with facts and other rewrites between them left for later', async () => {
    const [first, ...rest] = rewriteOf('r1');
    const log = [...FACTS, first, contract('c2', 'view'), begun('r2'), ...rest, contract('c3', 'x')];
    const { state, position } = await restoreState(new ShortLog(log as CatalogEntry[], 2), 2);
    expect(position).toBe(2);
    expect(rowsOf(state)).toEqual(rowsOf(foldAll(FACTS).state));
  });

  it('never from anything else', async () => {
    const whole = rewriteOf('r1');
    const restore = (entries: readonly CatalogEntry[], first: number) =>
      restoreState(new ShortLog(entries, first), first);
    await expect(restore(FACTS, 1)).rejects.toThrow(CatalogGap);
    await expect(restore([...FACTS, ...whole], 1)).rejects.toThrow('keeps nothing of the catalog below 1');
    await expect(restore([...FACTS, ...whole.slice(0, -1)], 2)).rejects.toThrow(CatalogGap);
    await expect(restore([...FACTS, ...whole.slice(1)], 2)).rejects.toThrow(CatalogGap);
    await expect(restore([], 0)).rejects.toThrow(CatalogGap);
  });

  it('from the next rewrite where the present one drops it while it runs', async () => {
    const more = [...FACTS, contract('c2', 'view')];
    const log = new ShortLog([...FACTS, ...rewriteOf('r1'), ...rewriteOf('r2', more)], 2);
    const read = log.read.bind(log);
    log.read = (...where) => {
      if (log.reads === 1) log.first = 5;
      return read(...where);
    };
    const { state, position } = await restoreState(log, 2);
    expect(position).toBe(5);
    expect(rowsOf(state)).toEqual(rowsOf(foldAll(more).state));
  });

  it('never from something that is not a row, not JSON, or empty, and states what it found', async () => {
    const [first] = rewriteOf('r1');
    const piece = (text: unknown) => ({ v: 1, type: 'catalog.rewrite_rows', rewrite: 'r1', part: 0, text });
    const restore = (...entries: readonly unknown[]) =>
      restoreState(new ShortLog(entries as CatalogEntry[], 0), 0);
    for (const [text, why] of [
      ['["table","painted",["a"],1]\n', 'a state has no table painted'],
      ['["colour"]\n', 'a state has no rows of kind colour'],
      ['{\n', 'the rewrite r1 of the catalog cannot be read'],
      ['null\n', 'the rewrite r1 of the catalog cannot be read'],
      [undefined, 'the rewrite r1 of the catalog cannot be read'],
    ]) {
      const restoring = restore(first, piece(text));
      await expect(restoring).rejects.toThrow(CatalogGap);
      await expect(restoring).rejects.toThrow(why);
    }
    await expect(restore(first, null)).rejects.toThrow(CatalogGap);
    await expect(restore(first, null)).rejects.toThrow('what is no fact at 1');
    await expect(restore({ ...first, v: 2 })).rejects.toThrow(UnknownFact);
  });

  it('later where the log does not answer', async () => {
    const log = new ShortLog(rewriteOf('r1'), 0);
    log.read = async (_topic, _partition, from) => ({ entries: [], next: from });
    await expect(restoreState(log, 0)).rejects.toThrow(Unavailable);
  });
});
