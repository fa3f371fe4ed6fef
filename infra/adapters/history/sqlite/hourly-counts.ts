import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { HistoryCount, HistoryCountQuery } from '@tributary/core';
import { reading } from '../../sqlite/database.ts';
import { facetsOf } from './entry-row.ts';
import { IN_RANGE, type Narrowing, NEWEST_FIRST, narrowings } from './listings.ts';

const HOUR_MS = 3_600_000;
/** Rows of the index counted at a time, and entries whose facets are read at a time: 1 ms either. */
const COUNTED = 5_000;
const LOOKED_AT = 500;

/** Where counting has come to: what lies before it, in the order of lists, was counted. */
interface Place {
  readonly at: number;
  readonly id: string;
}

/** Counts entries by the hour. What the listings narrow by is counted in the index alone, the rest is looked at. */
export class HourlyCounts {
  readonly #reach: StatementSync;
  readonly #count: StatementSync;
  readonly #rows: StatementSync;

  constructor(database: DatabaseSync) {
    this.#reach = database.prepare(
      `SELECT listed.at, listed.id FROM listed WHERE ${IN_RANGE} ${NEWEST_FIRST} LIMIT 1 OFFSET ${COUNTED - 1}`,
    );
    this.#count = database.prepare(
      `SELECT listed.at / ${HOUR_MS} AS hour, count(*) AS count FROM listed
       WHERE ${IN_RANGE} AND (listed.at, listed.id) >= (:lastAt, :lastId) GROUP BY hour`,
    );
    this.#rows = database.prepare(
      `SELECT listed.at, listed.id, entries.facets FROM listed JOIN entries ON entries.entry = listed.entry
       WHERE ${IN_RANGE} ${NEWEST_FIRST} LIMIT ${LOOKED_AT}`,
    );
  }

  /** Gives the thread back again and again: there may be millions. */
  async of({
    kind,
    workspaceId,
    facets = {},
    fromHour,
    toHour,
  }: HistoryCountQuery): Promise<readonly HistoryCount[]> {
    const [narrowing] = narrowings(kind, workspaceId, facets);
    const counts = new Map<number, number>();
    const step = narrowing.filters.length === 0 ? this.#countSome : this.#lookAtSome;
    let place: Place | undefined = { at: toHour + HOUR_MS, id: '' };
    while (place !== undefined) {
      const before: Place = place;
      place = reading(() => step.call(this, narrowing, fromHour, before, counts));
      await nextTurn();
    }
    return [...counts]
      .sort(([one], [other]) => one - other)
      .map(([hour, count]) => ({ hour: hour * HOUR_MS, count }));
  }

  /** Where to go on; undefined at the end. */
  #countSome(
    { listing }: Narrowing,
    since: number,
    before: Place,
    counts: Map<number, number>,
  ): Place | undefined {
    const range = { listing, since, at: before.at, id: before.id };
    const reached = this.#reach.get(range);
    const last = reached && { at: Number(reached.at), id: String(reached.id) };
    const until = last ?? { at: since, id: '' };
    for (const { hour, count } of this.#count.iterate({ ...range, lastAt: until.at, lastId: until.id }))
      add(counts, Number(hour), Number(count));
    return last;
  }

  #lookAtSome(
    { listing, filters }: Narrowing,
    since: number,
    before: Place,
    counts: Map<number, number>,
  ): Place | undefined {
    const rows = this.#rows.all({ listing, since, at: before.at, id: before.id });
    for (const row of rows) {
      const its = facetsOf(row);
      if (filters.every(([name, value]) => its[name] === value))
        add(counts, Math.floor(Number(row.at) / HOUR_MS), 1);
    }
    const last = rows.length < LOOKED_AT ? undefined : rows.at(-1);
    return last && { at: Number(last.at), id: String(last.id) };
  }
}

function add(counts: Map<number, number>, hour: number, count: number): void {
  counts.set(hour, (counts.get(hour) ?? 0) + count);
}
