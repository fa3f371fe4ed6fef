import { setTimeout as sleep } from 'node:timers/promises';
import { scrape, waiting } from '../helpers/running-tributary.ts';
import type { Installation } from './installation.ts';

const POLL_MS = 300;
/**
 * Every lag must be 0 this many times in a row, so that events between two stages show up in a later check.
 */
const IN_A_ROW = 4;

/** Waits until no process reports a lag of any stage; resolves to the time it took, ms. */
export async function drained(installation: Installation, withinMs: number): Promise<number> {
  const from = performance.now();
  let quiet = 0;
  for (let before = ''; quiet < IN_A_ROW; ) {
    const silent: string[] = [];
    const since = Date.now();
    const texts = await Promise.all(
      installation.processors.map((processor) =>
        scrape(processor.adminUrl).catch(() => {
          silent.push(`${processor.name} does not answer`);
          return '';
        }),
      ),
    );
    const metrics = texts.join('\n');
    const left = [...waiting(metrics, since), ...silent];
    quiet = left.length === 0 ? quiet + 1 : 0;
    before = left.join('\n');
    if (performance.now() - from > withinMs)
      throw new Error(`not drained within ${withinMs} ms; before the stages are still:\n${before}`);
    await sleep(POLL_MS);
  }
  return performance.now() - from;
}
