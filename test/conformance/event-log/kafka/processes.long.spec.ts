import { partitionOf } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { engines } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, readAll, valuesOf } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyStage } from '../suite/stages.ts';
import { type Installation, install, timed } from './installation/installation.ts';

const PARTITIONS = 4;
const SESSION_MS = 2_000;

describe.skipIf(engines() === undefined)('killed and stopped group members on Kafka', () => {
  let installed: Installation;
  let member: Child | undefined;
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', PARTITIONS);
  });
  afterEach(async () => {
    member?.signal('SIGCONT');
    await member?.kill();
    await installed.dispose();
  });

  function start(...how: readonly 'silently'[]): Child {
    const script = new URL('../programs/kafka-child.ts', import.meta.url);
    member = new Child(script, [installed.brokers, installed.prefix, String(PARTITIONS), ...how]);
    return member;
  }

  const positionOf = (partition: number) =>
    withAdmin(installed.brokers, async (admin) => {
      const [found] = await admin.fetchOffsets({
        groupId: `${installed.prefix}stage`,
        topics: [`${installed.prefix}${SOURCE}`],
      });
      return Number(found?.partitions.find((each) => each.partition === partition)?.offset);
    });

  // The crashes of the suite have stages with output records, whose commits are transactions.
  it('a stopped member whose stage emits nothing commits nothing once it goes on, and rejoins the group', async () => {
    const { log } = await installed.open();
    const partition = partitionOf('k', PARTITIONS);
    const zombie = start('silently');
    await log.append(SOURCE, numbered('k', 5));
    await eventually(() => zombie.lines.length === 1, 'it got nothing', 30_000);
    zombie.signal('SIGSTOP');
    await log.append(SOURCE, numbered('k', 5, 5));
    const stage = batchStage(async () => []);
    const run = await log.run(stage);
    await eventually(async () => (await positionOf(partition)) >= 10, 'not taken over', 30_000);
    await caughtUp(run);
    const position = await positionOf(partition);
    zombie.signal('SIGCONT');
    let at = 0;
    await eventually(
      async () => {
        const keys = Array.from({ length: 8 }, () => `other${at++}`);
        await log.append(
          SOURCE,
          keys.map((key) => ({ key, value: '1', headers: {} })),
        );
        return zombie.lines.length > 1;
      },
      'it does not come back',
      30_000,
    );
    expect(await positionOf(partition)).toBeGreaterThanOrEqual(position);
    await run.stop();
    const last = await log.run(stage);
    await caughtUp(last, 30_000);
    await last.stop();
    expect(await valuesOf(log, TARGET)).toEqual([]);
  }, 90_000);

  it('a killed member is replaced within its session and two seconds', async () => {
    const { log } = await installed.open();
    const killed = start();
    await log.append(SOURCE, numbered('k', 5));
    await eventually(() => killed.lines.length === 1, 'it got nothing', 30_000);
    await log.run(copyStage());
    await killed.kill();
    const took = await timed(() =>
      eventually(async () => (await readAll(log, TARGET)).length === 5, 'nobody takes over'),
    );
    console.log(`a killed member (session ${SESSION_MS} ms) was replaced after ${took.toFixed()} ms`);
    expect(took).toBeLessThan(SESSION_MS + 2_000);
  });
});
