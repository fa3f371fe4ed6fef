import { HEADER, type LogEntry, StoredDelivery } from '@tributary/core';
import type { Arrived } from './making.ts';
import { isFirstTry, isUntried } from './settlement.ts';

/** The delivery that an entry brings, whose value has so many bytes. Throws `InvalidInput` where that shows already. */
export function arrivedIn(entry: LogEntry, bytes: number): Arrived {
  const { value, headers } = entry;
  const stored = StoredDelivery.from(value);
  return {
    stored,
    bytes,
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
