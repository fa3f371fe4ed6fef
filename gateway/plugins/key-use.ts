import { messageOf } from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Caller } from '../http/caller.ts';

/** An API key's use is written at most this often, ms. */
const INTERVAL_MS = 60_000;

/**
 * Notes that an API key was used (a write key's use is counted from its events). Never waits and never fails: a note
 * that is lost costs the key's owner a minute of accuracy.
 */
export function createKeyUseNotes({
  counters,
  clock,
  logger,
}: Pick<GatewayDependencies, 'counters' | 'clock' | 'logger'>): (caller: Caller) => void {
  const notedAt = new Map<string, number>();

  async function write(keyId: string, at: number): Promise<void> {
    try {
      await counters.touch({ keyId, at });
    } catch (error) {
      logger.warn({ key_id: keyId, error: messageOf(error) }, 'the use of an API key was not noted');
    }
  }

  return (caller) => {
    if (caller.kind !== 'api_key') return;
    const now = clock();
    const before = notedAt.get(caller.key.id);
    if (before !== undefined && now - before < INTERVAL_MS) return;
    notedAt.set(caller.key.id, now);
    void write(caller.key.id, now);
  };
}
