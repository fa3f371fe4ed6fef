import { setTimeout as sleep } from 'node:timers/promises';
import { isDrained } from '../demo/drained.ts';
import type { Installation } from './installation.ts';

const POLL_MS = 300;
/** Every lag must be 0 this often in a row: what is between two stages shows up meanwhile. */
const IN_A_ROW = 4;

/** Waits until no process sees anything before any stage; resolves to how long it took, ms. */
export async function drained(installation: Installation, withinMs: number): Promise<number> {
  const from = performance.now();
  let quiet = 0;
  for (let lags = ''; quiet < IN_A_ROW; ) {
    const texts = await Promise.all(
      installation.processors.map((processor) =>
        processor.get('/metrics').then(
          (answer) => answer.text(),
          () => `${processor.name} does not answer`,
        ),
      ),
    );
    quiet = texts.every(isDrained) ? quiet + 1 : 0;
    lags = texts
      .flatMap((text) => text.match(/^tributary_stage_lag\{.*\} [1-9].*$|.* does not answer/gm) ?? [])
      .join('\n');
    if (performance.now() - from > withinMs)
      throw new Error(`not drained within ${withinMs} ms; before the stages are still:\n${lags}`);
    await sleep(POLL_MS);
  }
  return performance.now() - from;
}
