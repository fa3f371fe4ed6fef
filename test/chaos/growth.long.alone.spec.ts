// Runs alone in the long form: eight processes and dedicated engines are busy for minutes.
import { describe, expect, it } from 'vitest';
import { engines } from '../helpers/engines.ts';
import { GROWTH } from './forms.ts';
import { runGrowth } from './growth.ts';

const seed = Number(process.env.TRIBUTARY_CHAOS_SEED ?? Date.now() % 1_000_000);

describe.skipIf(engines() === undefined)('partitions that grow under load and kills', () => {
  it('leave each event once wherever it belongs, in the order of its subject', {
    timeout: 1_800_000,
  }, async () => {
    expect(await runGrowth({ ...GROWTH, seed }, (line) => console.log(line))).toEqual([]);
  });
});
