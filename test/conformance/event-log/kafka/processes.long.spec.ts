import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type LogEntry, partitionOf } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { isCopied, sparseBatch, sparseFlow } from '../programs/kafka-sparse-stages.ts';
import { OTHER_TARGET, SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, numbers, readAll, valuesOf } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyOf, eachOf } from '../suite/stages.ts';
import { type Installation, install, timed } from './installation/installation.ts';

const PARTITIONS = 4;
const SESSION_MS = 2_000;
const CHAOS_MS = 240_000;

interface Member {
  readonly process: ChildProcess;
  /** Values of each chunk it reported as held. */
  readonly holds: readonly (readonly string[])[];
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
}

describe.skipIf(engines() === undefined)('killed and stopped group members on Kafka', () => {
  let installed: Installation;
  const members = new Set<Member>();
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', PARTITIONS);
  });
  afterEach(async () => {
    await Promise.all([...members].map((member) => member.end('SIGKILL')));
    await installed.dispose();
  });

  function start(what: 'sparse' | 'hold' | 'hold-silently'): Member {
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
      async end(signal) {
        child.kill(signal);
        if (signal === 'SIGKILL') child.kill('SIGCONT');
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
    await killed.end('SIGKILL');
    const took = await timed(() =>
      eventually(async () => (await readAll(log, TARGET)).length === 5, 'nobody takes over'),
    );
    console.log(`a killed member (session ${SESSION_MS} ms) was replaced after ${took.toFixed()} ms`);
    expect(took).toBeLessThan(SESSION_MS + 2_000);
  });

  it(`positions alone and transactions in turn: each once and in order through ${CHAOS_MS / 1_000} s of kills and stops`, {
    timeout: CHAOS_MS + 120_000,
  }, async () => {
    const { log } = await installed.open();
    const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
    let count = 0;
    let stopping = false;
    const feeding = (async () => {
      while (!stopping) {
        await log.append(
          SOURCE,
          keys.flatMap((key) => numbered(key, 4, count)),
        );
        count += 4;
        await setTimeout(50);
      }
    })();
    feeding.catch(() => {}); // awaited below
    const until = performance.now() + CHAOS_MS;
    const told = { kills: 0, stops: 0, terms: 0 };
    const slots = Array.from({ length: 3 }, async () => {
      while (performance.now() < until) {
        const member = start('sparse');
        await setTimeout(1_000 + Math.random() * 3_000);
        const dice = Math.random();
        if (dice < 0.4) {
          told.stops++;
          member.process.kill('SIGSTOP');
          await setTimeout(SESSION_MS * (0.5 + Math.random() * 1.5));
          member.process.kill('SIGCONT');
          await setTimeout(Math.random() * 2_000);
        }
        const signal = dice < 0.8 ? 'SIGKILL' : 'SIGTERM';
        told[signal === 'SIGKILL' ? 'kills' : 'terms']++;
        await member.end(signal);
      }
    });
    await Promise.all(slots);
    stopping = true;
    await feeding;
    const runs = [await log.run(sparseBatch()), await log.run(sparseFlow())];
    for (const run of runs) await caughtUp(run, 100_000);
    for (const run of runs) await run.stop();
    const expected = numbers(count).filter(isCopied).map(String);
    console.log(`${count * keys.length} entries, ${JSON.stringify(told)}`);
    for (const topic of [TARGET, OTHER_TARGET]) {
      const read = Map.groupBy(await readAll(log, topic), ({ key }: LogEntry) => key);
      for (const key of keys)
        expect(
          read.get(key)?.map(({ value }) => value),
          `${topic} ${key}`,
        ).toEqual(expected);
    }
  });
});
