import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunningKafka } from '../../../engines/index.ts';
import { engines } from '../../../helpers/engines.ts';
import { ownEngines } from '../../../helpers/own-engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, readAll } from '../suite/log-contents.ts';
import { batchStage, caughtUp, eachOf, flowStage } from '../suite/stages.ts';
import { byKey, firstMissing, startFeed } from './installation/feed.ts';
import { type Installation, install, type Opened, timed } from './installation/installation.ts';

const PAUSE_MS = 20_000;
const CALLERS = 8;

/** An append reports its outcome within its timeout (1 s here) and a few seconds. */
const APPEND_WITHIN_MS = 5_000;

describe.skipIf(engines() === undefined)('Kafka does not answer', () => {
  let kafka: RunningKafka;
  let installed: Installation;
  let opened: Opened;
  beforeAll(async () => {
    kafka = await ownEngines().kafka.start();
  });
  afterAll(() => kafka?.stop());
  beforeEach(async () => {
    installed = await install(kafka.url);
    opened = await installed.open();
  });
  afterEach(() => installed.dispose());

  const troubles: Record<string, () => Promise<void>> = {
    'killed and started again': async () => {
      await kafka.kill();
      await setTimeout(2_000);
      await kafka.restart();
    },
    [`paused for ${PAUSE_MS / 1_000} s`]: async () => {
      await kafka.pause();
      await setTimeout(PAUSE_MS);
      await kafka.resume();
    },
  };

  it.each(Object.entries(troubles))(
    'appends fail in time, confirmed entries are stored, stages continue by themselves: %s',
    { timeout: 120_000 },
    async (_what, trouble) => {
      const { log } = opened;
      const runs = [
        await log.run(batchStage(eachOf(() => {}))),
        await log.run(
          flowStage(async ({ key, value }) => [{ topic: 'violations', key, value, headers: {} }], {
            name: 'flow',
          }),
        ),
      ];
      const feed = startFeed(log, CALLERS);
      await eventually(() => feed.confirmed() > 200, 'nothing is appended');
      await trouble();
      const before = feed.confirmed();
      await eventually(() => feed.confirmed() > before + 200, 'appends do not go on', 60_000);
      await feed.stop();

      expect(feed.unavailable()).toBeGreaterThan(0);
      expect(feed.others()).toEqual([]);
      expect(feed.slowestMs()).toBeLessThan(APPEND_WITHIN_MS);
      await Promise.all(runs.map((run) => caughtUp(run, 60_000)));
      const source = byKey(await readAll(log, SOURCE));
      for (const [key, values] of feed.sent) expect(firstMissing(values, source.get(key))).toBeUndefined();
      for (const topic of [TARGET, 'violations']) expect(byKey(await readAll(log, topic))).toEqual(source);
      for (const run of runs) await run.stop();
    },
  );

  it('stops within seconds while no broker answers', async () => {
    const { log } = await installed.open({ stopGraceMs: 1_000 });
    const run = await log.run(batchStage(eachOf(() => {})));
    await log.append(SOURCE, numbered('k', 5));
    await caughtUp(run);
    await kafka.pause();
    try {
      expect(await timed(() => log.close())).toBeLessThan(6_000);
    } finally {
      await kafka.resume();
    }
  });

  it('stops within seconds when no broker answered from the beginning', async () => {
    await kafka.pause();
    try {
      const { log } = await installed.open({ stopGraceMs: 1_000 });
      await log.run(batchStage(eachOf(() => {})));
      await setTimeout(500);
      expect(await timed(() => log.close())).toBeLessThan(6_000);
    } finally {
      await kafka.resume();
    }
  });
});
