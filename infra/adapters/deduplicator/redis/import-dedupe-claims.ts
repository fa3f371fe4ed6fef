import { type Position, TributaryError } from '@tributary/core';
import { checkKeyPrefix, type RedisConnection } from '../../redis/index.ts';
import { DedupeClaimFormat } from './dedupe-claims.ts';

/** A dedupe claim that another store decided. */
export interface ImportedDedupeClaim {
  readonly digest: Uint8Array;
  readonly position: Position;
  /** Epoch ms. */
  readonly keptUntil: number;
}

/** Another position has the message: the keys of the prefix are of another installation. */
export class DedupeClaimTaken extends TributaryError {
  readonly code = 'claim_taken';
  readonly retryable = false;
}

/** A dedupe claim that expires sooner than this is left out, ms. */
const EXPIRING_MS = 1_000;

/** Makes Redis hold the dedupe claims, each for as long as its store would have kept it. May be repeated. */
export async function importDedupeClaims(
  connection: RedisConnection,
  prefix: string,
  claims: readonly ImportedDedupeClaim[],
  now: number,
): Promise<void> {
  const format = new DedupeClaimFormat(checkKeyPrefix(prefix));
  await connection.call(async (client) => {
    const stored = await Promise.all(
      claims.map(async ({ digest, position, keptUntil }) => {
        const keptMs = Math.floor(keptUntil - now);
        if (keptMs < EXPIRING_MS) return true;
        const { key, value } = format.importedOf(digest, position);
        const winner = await client.set(key, value, 'PX', keptMs, 'NX', 'GET');
        return winner === null || winner === value;
      }),
    );
    if (stored.includes(false))
      throw new DedupeClaimTaken(`Redis holds a claim below ${prefix} that is not of this installation`);
  });
}
