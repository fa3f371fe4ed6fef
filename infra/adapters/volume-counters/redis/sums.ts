import type { VolumeQuery, VolumeRow } from '@tributary/core';
import { parseField } from './fields.ts';

/** Adds counts of many partitions up to the rows of one answer. */
export class Sums {
  readonly #query: VolumeQuery;
  readonly #rows = new Map<string, VolumeRow>();

  constructor(query: VolumeQuery) {
    this.#query = query;
  }

  /** The counts of one hash: a count for each field, each field once. */
  add(day: number, counts: ReadonlyMap<string, string>): void {
    const { fromHour, toHour, environment: wanted } = this.#query;
    for (const [field, count] of counts) {
      const counted = parseField(day, field);
      if (counted === undefined || counted.hour < fromHour || counted.hour > toHour) continue;
      const { hour, environment, eventType, eventName } = counted;
      if (wanted !== undefined && wanted !== environment) continue;
      const key = `${hour}:${eventType}:${eventName}`;
      const sum = (this.#rows.get(key)?.count ?? 0) + Number(count);
      this.#rows.set(key, { eventType, eventName, hour, count: sum });
    }
  }

  /** Oldest hour first, then by type and name. */
  rows(): readonly VolumeRow[] {
    return [...this.#rows.values()].sort(
      (a, b) => a.hour - b.hour || compare(a.eventType, b.eventType) || compare(a.eventName, b.eventName),
    );
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
