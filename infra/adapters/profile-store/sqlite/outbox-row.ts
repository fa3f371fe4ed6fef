import type { ProfileChange } from '@tributary/core';

/** A change as it waits, without the profile: a long wait is not to cost a copy of it for each version. */
export interface WaitingChange extends Omit<ProfileChange, 'profile'> {
  /** A ucid that was linked to the profile and is split off by the change. */
  readonly split?: string;
}

/** Changes and the ucids they bring in one row, at most: rows are parsed as wholes. One change alone may have more. */
const ROW_WEIGHT = 50;

/** The changes of a transaction as rows of the outbox, in order. */
export function* outboxRows(changes: readonly WaitingChange[]): Generator<readonly WaitingChange[]> {
  let row: WaitingChange[] = [];
  let weight = 0;
  for (const change of changes) {
    const added = 1 + change.linked.length;
    if (row.length > 0 && weight + added > ROW_WEIGHT) {
      yield row;
      [row, weight] = [[], 0];
    }
    row.push(change);
    weight += added;
  }
  if (row.length > 0) yield row;
}
