import { setTimeout } from 'node:timers/promises';
import type { LogEntry } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, readAll } from '../suite/log-contents.ts';
import { caughtUp, copyOf, copyStage, flowStage } from '../suite/stages.ts';
import { type Installation, install, type Opened, timed } from './installation/installation.ts';

const PARTITIONS = 12;

describe.skipIf(engines() === undefined)('members of a group on Kafka', () => {
  let installed: Installation;
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', PARTITIONS);
  });
  afterEach(() => installed.dispose());

  it('share the partitions; a new member gets only its share, and no entry is processed twice', {
    timeout: 60_000,
  }, async () => {
    const work = new Work();
    const members: Opened[] = [];
    const join = async () => {
      const one = await installed.open();
      members.push(one);
      const run = await one.log.run(work.stage());
      await eventually(() => areEven(members), `${members.length} members do not share evenly`);
      return run;
    };
    const first = await join();
    const feed = startFeed(installed);
    const alone = parts(members);
    const second = await join();
    const two = parts(members);
    await join();
    const three = parts(members);

    expect(alone.map(({ size }) => size)).toEqual([12]);
    expect(two.map(({ size }) => size)).toEqual([6, 6]);
    expect(three.map(({ size }) => size)).toEqual([4, 4, 4]);
    expect(gained(alone[0], two[0])).toEqual([]);
    for (const i of [0, 1]) expect(gained(two[i], three[i])).toEqual([]);

    const leaving = await timed(() => second.stop());
    const handedOver = await timed(() => eventually(() => areEven([members[0], members[2]]), 'no hand-over'));
    console.log(`left in ${leaving.toFixed()} ms, its part is at work ${handedOver.toFixed()} ms later`);
    expect(leaving + handedOver).toBeLessThan(3_000);

    await feed.stop();
    await caughtUp(first);
    expect(work.twice()).toEqual([]);
    const { log } = await installed.open();
    const copies = (await readAll(log, TARGET)).map(({ key, value }) => `${key} ${value}`);
    expect(copies.length).toBe(feed.count());
    expect(new Set(copies).size).toBe(copies.length);
  });

  it('two members that start and stop at the same time lose and double nothing', async () => {
    const work = new Work();
    const { log } = await installed.open();
    await log.append(SOURCE, entriesOf(0, 500));
    for (let round = 0; round < 4; round++) {
      const members = await Promise.all([installed.open(), installed.open(), installed.open()]);
      await Promise.all(members.map((member) => member.log.run(work.stage())));
      await setTimeout(300 * round);
      // Also while a join is in progress.
      expect(await timed(() => Promise.all(members.map((member) => member.log.close())))).toBeLessThan(5_000);
    }
    const run = await log.run(work.stage());
    await caughtUp(run);
    await run.stop();
    expect(await readAll(log, TARGET)).toHaveLength(500);
  });

  it('a member that stopped during its join delays no other', async () => {
    const stays = await installed.open();
    await stays.log.run(copyStage());
    await eventually(() => stays.part()?.length === PARTITIONS, 'it has not got all');
    const hasty = await installed.open();
    const run = await hasty.log.run(copyStage());
    await setTimeout(100);
    expect(await timed(() => run.stop())).toBeLessThan(3_000);
    // At any point of the join: otherwise the group would wait for the session of a ghost member.
    await stays.log.append(SOURCE, entriesOf(0, 100));
    const took = await timed(() =>
      eventually(async () => (await readAll(stays.log, TARGET)).length === 100, 'not all is copied'),
    );
    expect(stays.part()).toHaveLength(PARTITIONS);
    console.log(`all was copied ${took.toFixed()} ms after a stop in the midst of a join`);
    expect(took).toBeLessThan(3_000);
  });
});

function areEven(members: readonly (Opened | undefined)[]): boolean {
  const sizes = parts(members).map(({ size }) => size);
  return sizes.every((size) => size === PARTITIONS / members.length);
}

function parts(members: readonly (Opened | undefined)[]): readonly ReadonlySet<string>[] {
  return members.map((member) => new Set(member?.part()));
}

type Part = ReadonlySet<string> | undefined;

function gained(before: Part, after: Part): readonly string[] {
  return [...(after ?? [])].filter((name) => !before?.has(name));
}

/** Counts how often each entry was dispatched to the stage, to find repeats. */
class Work {
  readonly #handed = new Map<string, number>();

  stage() {
    return flowStage(async (entry: LogEntry) => {
      const name = `${entry.key} ${entry.value}`;
      this.#handed.set(name, (this.#handed.get(name) ?? 0) + 1);
      await setTimeout(Math.random() * 40);
      return [copyOf(entry)];
    });
  }

  twice(): readonly string[] {
    return [...this.#handed].filter(([, times]) => times > 1).map(([name]) => name);
  }
}

function entriesOf(first: number, count: number) {
  return Array.from({ length: count }, (_, i) => ({
    key: `key${(first + i) % 97}`,
    value: String(first + i),
    headers: {},
  }));
}

/** Appends without a pause, to every partition. */
function startFeed({ open }: Installation) {
  let count = 0;
  let stopping = false;
  const feeding = (async () => {
    const { log } = await open();
    while (!stopping) {
      await log.append(SOURCE, entriesOf(count, 20));
      count += 20;
      await setTimeout(20);
    }
  })();
  feeding.catch(() => {}); // `stop` rejects
  return {
    count: () => count,
    async stop() {
      stopping = true;
      await feeding;
    },
  };
}
