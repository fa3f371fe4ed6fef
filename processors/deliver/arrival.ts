import { HEADER, type LogEntry, StoredDelivery } from '@tributary/core';
import type { Arrived } from './making.ts';
import { isFirstTry, isUntried } from './settlement.ts';

/**
 * The delivery that an entry brings, whose value has so many bytes. Throws `InvalidInput` where that shows already.
 * `catalogPosition` is that of the state by which its rule is looked at now.
 */
export function arrivedIn(entry: LogEntry, bytes: number, catalogPosition: number): Arrived {
  const { value, headers } = entry;
  const stored = StoredDelivery.from(value);
  return {
    stored,
    bytes,
    headers,
    ruleSeenAt: catalogPosition,
    turn: timeIn(entry, HEADER.turn),
    asideSince: timeIn(entry, HEADER.asideSince),
    untold: isFirstTry(stored, headers),
    untried: isUntried(stored, headers),
  };
}

function timeIn({ headers }: LogEntry, name: string): number | undefined {
  const text = headers[name];
  if (text === undefined) return undefined;
  const time = Number(text);
  return Number.isFinite(time) ? time : undefined;
}
