import { messageOf } from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Caller } from './caller.ts';

/** An API key's use is written at most this often, ms. */
const INTERVAL_MS = 60_000;
/** After a write that failed none is tried for this long, ms: the engine may make its caller wait to say so. */
const PAUSE_MS = 5_000;

/**
 * Notes that an API key was used (a write key's use is counted from its events). Never fails: a use that could not be
 * written waits for the next one of any key. The caller is not kept waiting for the answer, but an embedded engine
 * writes on this very thread: so one write at a time, and a pause after one that failed.
 */
export function createKeyUseNotes({
  counters,
  clock,
  logger,
}: Pick<GatewayDependencies, 'counters' | 'clock' | 'logger'>): (caller: Caller) => void {
  /** When the use that was last written happened, by key. */
  const written = new Map<string, number>();
  /** The last use that is still to be written, by key. */
  const waiting = new Map<string, number>();
  let writing = false;
  let pausedUntil = Number.NEGATIVE_INFINITY;

  async function writeWaiting(): Promise<void> {
    writing = true;
    for (const [keyId, at] of waiting) {
      try {
        await counters.touch({ keyId, at });
      } catch (error) {
        pausedUntil = clock() + PAUSE_MS;
        logger.warn(
          { key_id: keyId, error: messageOf(error) },
          'the use of an API key could not be noted yet',
        );
        break;
      }
      written.set(keyId, at);
      waiting.delete(keyId);
    }
    writing = false;
  }

  return (caller) => {
    if (caller.kind !== 'api_key') return;
    const now = clock();
    const before = written.get(caller.key.id);
    if (before !== undefined && now - before < INTERVAL_MS) return;
    waiting.set(caller.key.id, now);
    if (!writing && now >= pausedUntil) void writeWaiting();
  };
}
