import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { partitionOf } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, numbers, readAll, valuesOf } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyOf, eachOf } from '../suite/stages.ts';
import { type Installation, install, timed } from './installation/installation.ts';

const PARTITIONS = 4;
const SESSION_MS = 2_000;

interface Member {
  readonly process: ChildProcess;
  /** Values of each chunk it reported as held. */
  readonly holds: readonly (readonly string[])[];
  kill(): Promise<void>;
}

describe.skipIf(engines() === undefined)('killed and stopped group members on Kafka', () => {
  let installed: Installation;
  const members = new Set<Member>();
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', PARTITIONS);
  });
  afterEach(async () => {
    await Promise.all([...members].map((member) => member.kill()));
    await installed.dispose();
  });

  function start(what: 'hold' | 'hold-silently'): Member {
    const script = fileURLToPath(new URL('../programs/kafka-child.ts', import.meta.url));
    const args = [script, installed.brokers, installed.prefix, String(PARTITIONS), what];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const holds: string[][] = [];
    const output = createInterface({ input: child.stdout });
    output.on('line', (line) => line.endsWith('}') && holds.push(JSON.parse(line).holds));
    const exited = once(child, 'exit');
    const member: Member = {
      process: child,
      holds,
      async kill() {
        child.kill('SIGKILL');
        child.kill('SIGCONT');
        await exited;
        members.delete(member);
      },
    };
    members.add(member);
    return member;
  }

  async function positionOf(partition: number): Promise<number> {
    return withAdmin(installed.brokers, async (admin) => {
      const [found] = await admin.fetchOffsets({
        groupId: `${installed.prefix}stage`,
        topics: [`${installed.prefix}${SOURCE}`],
      });
      return Number(found?.partitions.find((each) => each.partition === partition)?.offset);
    });
  }

  it.each(['hold', 'hold-silently'] as const)(
    'a zombie (%s) commits nothing and rejoins the group',
    { timeout: 60_000 },
    async (what) => {
      const emits = what === 'hold';
      const { log } = await installed.open();
      const partition = partitionOf('k', PARTITIONS);
      const zombie = start(what);
      await log.append(SOURCE, numbered('k', 5));
      await eventually(() => zombie.holds.length === 1, 'it got nothing', 30_000);
      zombie.process.kill('SIGSTOP');
      await log.append(SOURCE, numbered('k', 5, 5));
      const stage = batchStage(async ({ entries }) => (emits ? entries.map((entry) => copyOf(entry)) : []));
      const run = await log.run(stage);
      const took = await timed(() =>
        eventually(async () => (await positionOf(partition)) >= 10, 'not taken over'),
      );
      console.log(`a stopped member (session ${SESSION_MS} ms) was replaced after ${took.toFixed()} ms`);
      await caughtUp(run);
      const position = await positionOf(partition);
      zombie.process.kill('SIGCONT');
      // The member stops its partitions at once, then rejoins and is assigned its share.
      await log.append(
        SOURCE,
        Array.from({ length: 40 }, (_, i) => ({ key: `other${i}`, value: String(100 + i), headers: {} })),
      );
      let at = 200;
      await eventually(
        async () => {
          await log.append(
            SOURCE,
            Array.from({ length: 8 }, () => ({ key: `other${at}`, value: String(at++), headers: {} })),
          );
          await setTimeout(100);
          return zombie.holds.length > 1;
        },
        'it does not come back',
        20_000,
      );
      expect(await positionOf(partition)).toBeGreaterThanOrEqual(position);
      await run.stop();
      const last = await log.run(stage);
      await caughtUp(last, 30_000);
      await last.stop();
      const copied = (await valuesOf(log, TARGET)).map(Number).sort((a, b) => a - b);
      expect(copied).toEqual(emits ? [...numbers(10), ...numbers(40, 100), ...numbers(at - 200, 200)] : []);
    },
  );

  it('a killed member is replaced within its session and two seconds', async () => {
    const { log } = await installed.open();
    const killed = start('hold');
    await log.append(SOURCE, numbered('k', 5));
    await eventually(() => killed.holds.length === 1, 'it got nothing', 30_000);
    await log.run(batchStage(eachOf(() => {})));
    await killed.kill();
    const took = await timed(() =>
      eventually(async () => (await readAll(log, TARGET)).length === 5, 'nobody takes over'),
    );
    console.log(`a killed member (session ${SESSION_MS} ms) was replaced after ${took.toFixed()} ms`);
    expect(took).toBeLessThan(SESSION_MS + 2_000);
  });
});
