import { setTimeout as sleep } from 'node:timers/promises';

export const READY_WITHIN_MS = 90_000;
const POLL_MS = 50;

/** Polls until the engine answers (`ready`), has ended (`ended`), or took too long (`late`). */
export async function becomesReady(
  isReady: () => Promise<boolean>,
  isRunning: () => boolean,
): Promise<'ready' | 'ended' | 'late'> {
  const deadline = Date.now() + READY_WITHIN_MS;
  while (Date.now() < deadline) {
    if (!isRunning()) return 'ended';
    if (await isReady().catch(() => false)) return 'ready';
    await sleep(POLL_MS);
  }
  return 'late';
}
