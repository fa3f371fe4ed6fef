import {
  type Catalog,
  type Fact,
  iso,
  type NewEntry,
  NO_LOGGER,
  partitionOf,
  type StageRun,
} from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import type { KafkaLog } from '@tributary/infra/adapters/event-log/kafka';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, readAll } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyOf } from '../suite/stages.ts';
import { type Installation, install } from './installation/installation.ts';

const PARTITIONS = 2;
const KEYS = Array.from({ length: 40 }, (_, n) => `key${n}`);

/** A process with a log that follows the catalog. */
interface Process {
  readonly log: KafkaLog;
  readonly catalog: Catalog;
}

describe.skipIf(engines() === undefined)('added partitions on Kafka', () => {
  let installed: Installation;
  let processes: Process[];
  const runs: StageRun[] = [];
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', PARTITIONS);
    processes = [await start(), await start()];
  });
  afterEach(async () => {
    await Promise.all(runs.splice(0).map((run) => run.stop()));
    await Promise.all(processes.map(({ catalog }) => catalog.close()));
    await installed.dispose();
  });

  async function start(): Promise<Process> {
    // An append without an answer may be there, and sending it again would double it.
    const { log } = await installed.open({ appendTimeoutMs: 60_000 });
    let changed = () => {};
    const catalog = openLogCatalog({ log, logger: NO_LOGGER, fetchWaitMs: 200, onLayouts: () => changed() });
    changed = log.followLayouts(catalog);
    await eventually(() => catalog.ready, 'the catalog is not read');
    return { log, catalog };
  }

  const first = (): Process => {
    const [process] = processes;
    if (process === undefined) throw new Error('no process');
    return process;
  };

  async function run(process: Process, stage: Parameters<KafkaLog['run']>[0]): Promise<StageRun> {
    const running = await process.log.run(stage);
    runs.push(running);
    return running;
  }

  const fact = (topic: string): Pick<Fact, 'v' | 'entity' | 'by' | 'from' | 'at'> & { v: 1 } => ({
    v: 1,
    entity: topic,
    by: 'operator:topics',
    from: { address: '', request_id: '' },
    at: iso(Date.now()),
  });

  async function announce(topic: string, from: number, to: number): Promise<void> {
    const { log, catalog } = first();
    await log.growTopic(topic, to);
    const announced = {
      ...fact(topic),
      type: 'topic.growth_announced',
      data: { from, partitions: to },
    } as const;
    expect(await catalog.propose(announced)).toMatchObject({ applied: true });
    await Promise.all(processes.map((each) => each.catalog.waitFor(catalog.position, 5_000)));
  }

  async function adopt(topic: string, to: number): Promise<void> {
    const grown = { ...fact(topic), type: 'topic.grown', data: { partitions: to } } as const;
    expect(await first().catalog.propose(grown)).toMatchObject({ applied: true });
  }

  /** Appends the next events of each key, in order, by one process after the other, until told to stop. */
  function load() {
    const sent = new Map(KEYS.map((key) => [key, 0]));
    let isOver = false;
    const sender = async (key: string, of: number) => {
      for (let i = 0; !isOver; i++) {
        const seq = (sent.get(key) ?? 0) + 1;
        const entry: NewEntry = { key, value: JSON.stringify({ key, seq }), headers: {} };
        const { log } = processes[(i + of) % processes.length] ?? first();
        await log.append(SOURCE, [entry]);
        sent.set(key, seq);
      }
    };
    const senders = KEYS.map(sender);
    return {
      sent,
      async stop() {
        isOver = true;
        await Promise.all(senders);
      },
    };
  }

  it('keep each key in order and each event once, in two topics and two growths under load', {
    timeout: 120_000,
  }, async () => {
    const arrived = new Map<string, number[]>();
    const copy = batchStage(async ({ entries }) => entries.map((entry) => copyOf(entry)), { maxEntries: 50 });
    const take = batchStage(
      async ({ entries }) => {
        for (const { value } of entries) {
          const { key, seq } = JSON.parse(value) as { key: string; seq: number };
          arrived.set(key, [...(arrived.get(key) ?? []), seq]);
        }
        return [];
      },
      { name: 'taking', reads: [{ topic: TARGET }], writes: [] },
    );
    for (const process of processes) {
      await run(process, copy);
      await run(process, take);
    }
    const loaded = load();
    const since = performance.now();
    const until = async (seconds: number) =>
      eventually(() => performance.now() - since > seconds * 1_000, 'time does not pass', 60_000);
    await until(4);
    await announce(SOURCE, 2, 6);
    await adopt(SOURCE, 6);
    await until(6);
    await announce(TARGET, 2, 4);
    await adopt(TARGET, 4);
    await until(8);
    await announce(SOURCE, 6, 12);
    await announce(TARGET, 4, 8);
    await adopt(TARGET, 8);
    await adopt(SOURCE, 12);
    await until(11);
    await loaded.stop();
    const wanted = KEYS.map((key) => [
      key,
      Array.from({ length: loaded.sent.get(key) ?? 0 }, (_, n) => n + 1),
    ]);
    await eventually(
      () => KEYS.every((key) => (arrived.get(key)?.length ?? 0) >= (loaded.sent.get(key) ?? 0)),
      'not all arrived',
      60_000,
    );
    expect(KEYS.map((key) => [key, arrived.get(key)])).toEqual(wanted);
    const used = new Set((await readAll(first().log, SOURCE)).map(({ position }) => position.partition));
    expect(used.size).toBeGreaterThan(6);
    await Promise.all(runs.map((running) => caughtUp(running)));
  });

  it('wait for the backlog of the partition that their keys come from, and others do not', {
    timeout: 60_000,
  }, async () => {
    const moves = KEYS.find((key) => partitionOf(key, 2) === 0 && partitionOf(key, 4) === 2) ?? '';
    const other = KEYS.find((key) => partitionOf(key, 2) === 1 && partitionOf(key, 4) === 3) ?? '';
    const { log } = first();
    const entry = (key: string, value: string): NewEntry => ({
      key,
      value: JSON.stringify(value),
      headers: {},
    });
    await log.append(SOURCE, [entry(moves, 'old'), entry(other, 'old other')]);
    const seen: string[] = [];
    const held = Promise.withResolvers<void>();
    await run(
      first(),
      batchStage(async ({ entries }) => {
        for (const { value } of entries) if (value === '"old"') await held.promise;
        seen.push(...entries.map(({ value }) => JSON.parse(value) as string));
        return [];
      }),
    );
    await announce(SOURCE, 2, 4);
    await adopt(SOURCE, 4);
    await log.append(SOURCE, [entry(moves, 'new'), entry(other, 'new other')]);
    await eventually(() => seen.includes('new other'), 'the other partition waits, too', 20_000);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(seen).toEqual(['old other', 'new other']);
    held.resolve();
    await eventually(() => seen.length === 4, 'it waits for ever');
    expect(seen.slice(2)).toEqual(['old', 'new']);
  });

  it('are used although the old records are no longer retained', { timeout: 60_000 }, async () => {
    const moves = KEYS.find((key) => partitionOf(key, 2) === 0 && partitionOf(key, 4) === 2) ?? '';
    const { log } = first();
    await log.append(SOURCE, [{ key: moves, value: '"old"', headers: {} }]);
    await announce(SOURCE, 2, 4);
    await adopt(SOURCE, 4);
    await log.append(SOURCE, [{ key: moves, value: '"new"', headers: {} }]);
    await log.dropBelow(SOURCE, 0, await log.end(SOURCE, 0));
    const seen: string[] = [];
    await run(
      first(),
      batchStage(async ({ entries }) => {
        seen.push(...entries.map(({ value }) => value));
        return [];
      }),
    );
    await eventually(() => seen.length === 1, 'it waits for ever', 20_000);
    expect(seen).toEqual(['"new"']);
  });
});
