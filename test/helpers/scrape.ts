import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 50;
const WITHIN_MS = 10_000;

/**
 * The metrics of a process, all of them collected after this call. An exposition is shared for a second, and
 * one from before an event was sent would show nothing in flight.
 */
export async function scrape(adminUrl: string): Promise<string> {
  const from = Date.now();
  for (;;) {
    const answer = await fetch(`${adminUrl}/metrics`, { signal: AbortSignal.timeout(5_000) });
    const text = await answer.text();
    const collected = [...text.matchAll(/^tributary_metrics_collected_timestamp_seconds\{.*\} (\S+)$/gm)];
    if (collected.length > 0 && collected.every(([, seconds]) => Number(seconds) * 1_000 >= from))
      return text;
    if (Date.now() - from > WITHIN_MS) throw new Error(`no fresh metrics at ${adminUrl}: ${answer.status}`);
    await sleep(POLL_MS);
  }
}
