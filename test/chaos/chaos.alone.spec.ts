// Runs alone: eight processes and dedicated engines are busy, and a drain has a deadline.
import { describe, expect, it } from 'vitest';
import { engines } from '../helpers/engines.ts';
import { GROWTH, LONG, SHORT } from './forms.ts';
import { type Form, runForm } from './run.ts';

const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
const seed = Number(process.env.TRIBUTARY_CHAOS_SEED ?? Date.now() % 1_000_000);
const wrong = (form: Form) => runForm(form, seed, (line) => console.log(line));

/**
 * Runs two gateways and three processors on dedicated engines, and kills all of them while events flow.
 * Skipped where the run has no engines. It is never retried: a failure in one run of ten is still a fault.
 */
describe.skipIf(engines() === undefined)('chaos', () => {
  it(`leaves each event exactly once in every store and destination (${isLong ? 'long' : 'short'} form)`, {
    timeout: isLong ? 3_600_000 : 600_000,
    retry: 0,
  }, async () => {
    expect(await wrong(isLong ? LONG : SHORT)).toEqual([]);
  });

  it.runIf(isLong)(
    'partitions that grow under load and kills leave each event once wherever it belongs, in the order of its subject',
    { timeout: 1_800_000, retry: 0 },
    async () => {
      expect(await wrong(GROWTH)).toEqual([]);
    },
  );
});
