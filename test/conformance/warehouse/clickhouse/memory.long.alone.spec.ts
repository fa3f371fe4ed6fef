// Runs alone in the long form: it measures memory.
import { memoryUsage } from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, describe, expect, it } from 'vitest';
import { engineOfFile } from '../../../helpers/own-engines.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { TestLoader, track } from '../suite/harness.ts';
import { clickhouseHarness } from './harness.ts';

const server = await engineOfFile('clickhouse');

const LOADS = 1_000;
const TABLES = 200;
/** MiB that are in use after all loads more than after the first tenth, of which the space of the heap that is free is no part. */
const GROWTH = 20;

describe.skipIf(server === undefined)('a ClickHouse server', () => {
  const engine = server ?? noEngine('clickhouse');
  afterAll(() => engine.stop());

  it('report 25: a loader needs no more memory with each load', { timeout: 1_800_000 }, async () => {
    const harness = await clickhouseHarness(engine);
    const loader = new TestLoader(harness.open());
    setFlagsFromString('--expose_gc');
    const collect: unknown = runInNewContext('gc');
    const used = () => {
      if (typeof collect === 'function') collect();
      const { heapUsed, external } = memoryUsage();
      return (heapUsed + external) / 2 ** 20;
    };
    let before = 0;
    for (let load = 0; load < LOADS; load++) {
      if (load === LOADS / 10) before = used();
      await loader.load(
        [0, 1].map((n) => track(`Table ${(load * 2 + n) % TABLES}`, { n, text: `x${load}` })),
      );
    }
    const after = used();
    console.log(
      `MiB in use after ${LOADS / 10} loads ${before.toFixed(0)}, after ${LOADS} ${after.toFixed(0)}`,
    );
    expect(after - before).toBeLessThan(GROWTH);
    await harness.close();
  });
});
