// Runs alone in the long form: its three brokers are killed and paused, one after the other.
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningEngine, startKafkaCluster } from '../../../engines/index.ts';
import { engines } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { testMachine } from '../../../helpers/own-engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, readAll } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyOf, flowStage } from '../suite/stages.ts';
import { byKey, firstMissing, startFeed } from './installation/feed.ts';
import { type Installation, install } from './installation/installation.ts';

const ROUNDS = 6;

/** Leaders and coordinators move: there must be more than one broker. */
describe.skipIf(engines() === undefined)('a Kafka of three brokers', () => {
  let brokers: readonly RunningEngine[];
  let urls: string;
  let installed: Installation;
  beforeAll(async () => {
    brokers = await startKafkaCluster(testMachine());
    urls = brokers.map(({ url }) => url).join(',');
    await withAdmin(urls, async (admin) => {
      await eventually(
        async () => (await admin.describeCluster()).brokers.length === 3,
        'not all joined',
        60_000,
      );
    });
    installed = await install(urls, 6);
  }, 180_000);
  afterAll(async () => {
    await installed?.dispose().catch(() => {});
    await Promise.all((brokers ?? []).map((broker) => broker.stop()));
  }, 60_000);

  it('each once and in order while one after the other is killed or paused and returns', {
    timeout: 900_000,
  }, async () => {
    const members = [await installed.open(), await installed.open()];
    const { log } = await installed.open();
    const batch = batchStage(async ({ entries }) =>
      entries.filter(({ value }) => Number(value) % 32 < 16).map((entry) => copyOf(entry)),
    );
    const flow = flowStage(async (entry) => [copyOf(entry, 'violations')], { name: 'flow' });
    for (const member of members) for (const stage of [batch, flow]) await member.log.run(stage);
    const feed = startFeed(log, 12, 20);
    await eventually(() => feed.confirmed() > 100, 'nothing is appended', 60_000);
    for (let round = 0; round < ROUNDS; round++) {
      const victim = brokers[round % brokers.length];
      if (!victim) throw new Error('no broker');
      const before = feed.confirmed();
      const startedAt = performance.now();
      if (round % 2 === 0) await victim.kill();
      else await victim.pause();
      await eventually(() => feed.confirmed() > before + 200, 'appends do not go on without it', 90_000);
      console.log(
        `${round % 2 === 0 ? 'killed' : 'paused'}: 200 more confirmed after ${(performance.now() - startedAt).toFixed()} ms`,
      );
      await setTimeout(5_000);
      if (round % 2 === 0) await victim.restart();
      else await victim.resume();
      const after = feed.confirmed();
      await eventually(() => feed.confirmed() > after + 200, 'appends do not go on with it', 90_000);
      await setTimeout(3_000);
    }
    await feed.stop();
    console.log(
      `confirmed ${feed.confirmed()}, refused ${feed.unavailable()}, slowest ${feed.slowestMs().toFixed()} ms`,
    );
    const runs = [await log.run(batch), await log.run(flow)];
    for (const run of runs) await caughtUp(run, 120_000);
    expect(feed.others()).toEqual([]);
    const source = byKey(await readAll(log, SOURCE));
    for (const [key, values] of feed.sent) expect(firstMissing(values, source.get(key)), key).toBeUndefined();
    expect(byKey(await readAll(log, 'violations'))).toEqual(source);
    const copied = new Map(
      [...source].map(([key, values]) => [key, values.filter((n) => Number(n) % 32 < 16)]),
    );
    expect(byKey(await readAll(log, TARGET))).toEqual(copied);
  });
});
