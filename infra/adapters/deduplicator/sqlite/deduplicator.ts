import { join } from 'node:path';
import type { Clock, DedupeClaim, Deduplicator } from '@tributary/core';
import { openDatabase, reading } from '../../sqlite/database.ts';
import { digestOf, rejectedIdOf } from '../digest.ts';
import type { Claim } from './claims-file.ts';
import { Sources } from './sources.ts';
import { type OpenWindows, Windows } from './windows.ts';

export interface SqliteDeduplicatorOptions {
  /** A folder of its own; several processes may share it. */
  readonly folder: string;
  /** How long a `message_id` is remembered, at least, ms. */
  readonly windowMs: number;
  readonly clock: Clock;
  /** How long a call waits for another process's, ms, before it is `Unavailable`. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/**
 * A `Deduplicator` in files of one folder. A claim costs about 40 bytes on disk until its stretch of time is
 * forgotten, and no memory beyond a fixed page cache per file.
 */
export function openSqliteDeduplicator(options: SqliteDeduplicatorOptions): Deduplicator {
  const { folder, busyTimeoutMs } = options;
  const list = openDatabase(join(folder, 'windows.db'), busyTimeoutMs === undefined ? {} : { busyTimeoutMs });
  const sources = new Sources(list);
  const windows = new Windows(list, options);
  let closed = false;
  return {
    async claim(claimants: readonly DedupeClaim[]) {
      if (claimants.length === 0) return [];
      const claims = claimants.map((claimant): Claim => {
        const id = digestOf(claimant);
        const position = sources.shortOf(claimant.position);
        if (claimant.rejected === true) return { id, position, rejectedId: rejectedIdOf(id) };
        if (claimant.afterRejected === true) return { id, position, afterRejectedId: rejectedIdOf(id) };
        return { id, position };
      });
      return windows.exclusively((open) => decide(open, claims));
    },
    async winner(message) {
      return reading(() => {
        const id = digestOf(message);
        try {
          let rejected: string | undefined;
          for (const file of windows.asListed()) {
            const [winner, firstRejected] = file.winners([{ id }, { id: rejectedIdOf(id) }]);
            if (winner !== undefined) return sources.positionOf(winner);
            rejected = firstRejected ?? rejected;
          }
          return rejected === undefined ? undefined : sources.positionOf(rejected);
        } finally {
          // Who only looks now and then would keep a file's place on the disk long after others removed it.
          windows.close();
        }
      });
    },
    async close() {
      if (closed) return;
      closed = true;
      windows.close();
      list.close();
    },
  };
}

/** What no position is: the winner for a claim that needs a rejected one where there is none. */
const NOBODY = '';

function withoutRejected({ current, older }: OpenWindows, claims: readonly Claim[]): (string | undefined)[] {
  const winners = new Array<string | undefined>(claims.length).fill(undefined);
  const asked = claims.flatMap(({ afterRejectedId }, index) =>
    afterRejectedId === undefined ? [] : [{ id: afterRejectedId, index }],
  );
  if (asked.length === 0) return winners;
  const found = [current, ...older].map((file) => file.winners(asked));
  for (const [at, { index }] of asked.entries())
    if (found.every((rejected) => rejected[at] === undefined)) winners[index] = NOBODY;
  return winners;
}

/** True for each claim whose position is the winner: the one an older stretch knows, else the first in the current. Of rejected ones the winner among them counts first. */
function decide({ current, older }: OpenWindows, claims: readonly Claim[]): readonly boolean[] {
  const winners = withoutRejected({ current, older }, claims);
  const rejected = claims.flatMap(({ rejectedId }, index) =>
    rejectedId === undefined ? [] : [{ id: rejectedId, index }],
  );
  for (const file of older) {
    for (const [at, winner] of file.winners(rejected).entries()) {
      const index = rejected[at]?.index;
      if (index !== undefined) winners[index] ??= winner;
    }
  }
  for (const file of older) {
    for (const [index, winner] of file.winners(claims).entries()) winners[index] ??= winner;
  }
  const undecided = claims.filter((_, index) => winners[index] === undefined);
  const decided = current.decide(undecided).values();
  return claims.map(({ position }, index) => (winners[index] ?? decided.next().value) === position);
}
