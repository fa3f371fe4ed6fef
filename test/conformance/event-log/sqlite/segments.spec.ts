import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import {
  type EventLog,
  Fenced,
  InvalidInput,
  NO_LOGGER,
  NO_METRICS,
  partitionOf,
  TOPIC,
} from '@tributary/core';
import { openSqliteEventLog, type SqliteEventLogOptions } from '@tributary/infra';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Told } from '../../../helpers/recording-logger.ts';
import { PARTITIONS, RECEIVED, SOURCE, TARGET, TOPICS } from '../suite/harness.ts';
import { numbered, numbers, readPartition, valuesOf } from '../suite/log-contents.ts';
import { batchStage, caughtUp, copyOf, copyStage, runThrough } from '../suite/stages.ts';

const HOUR_MS = 3_600_000;
const PARTITION = partitionOf('k', PARTITIONS);

let folder: string;
let opened: EventLog[];
let now: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-log-'));
  opened = [];
  now = Date.now();
});

afterEach(async () => {
  await Promise.all(opened.map((log) => log.close()));
  rmSync(folder, { recursive: true });
});

/** Segments roll with every write, and files are dropped on the test's request. */
async function open(options: Partial<SqliteEventLogOptions> = {}) {
  const log = await openSqliteEventLog({
    folder,
    topics: TOPICS,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
    clock: () => now,
    segmentBytes: 1,
    retentionEveryMs: false,
    ...options,
  });
  opened.push(log);
  return log;
}

function segments(group: string): number {
  return readdirSync(join(folder, group)).filter((name) => name.endsWith('.db')).length;
}

async function appendOneByOne(log: EventLog, topic: string, count: number): Promise<void> {
  for (const n of numbers(count)) await log.append(topic, numbered('k', 1, n));
}

describe('segments of the embedded event log', () => {
  it('are dropped once older than the retention', async () => {
    const log = await open();
    await appendOneByOne(log, RECEIVED, 5);
    await appendOneByOne(log, SOURCE, 5);
    await log.dropExpired();
    expect([segments('received'), segments('stages')]).toEqual([6, 6]);
    now += 2 * HOUR_MS;
    await log.dropExpired();
    expect([segments('received'), segments('stages')]).toEqual([1, 1]);
    expect(await log.read(RECEIVED, PARTITION, 0)).toMatchObject({ entries: [] });
    const [position] = await log.append(RECEIVED, numbered('k', 1, 9));
    expect(position?.offset).toBe(5);
    expect((await log.read(RECEIVED, PARTITION, 0)).entries.map(({ value }) => value)).toEqual(['9']);
  });

  it('are never dropped before every stage has passed them, also while the stage does not run', async () => {
    const log = await open();
    const stage = copyStage({ reads: [{ topic: RECEIVED }] });
    const run = await log.run(stage);
    await run.stop();
    await appendOneByOne(log, RECEIVED, 5);
    now += 2 * HOUR_MS;
    await log.dropExpired();
    expect(segments('received')).toBe(6);
    await runThrough(log, stage);
    expect(await valuesOf(log, TARGET)).toEqual(numbers(5));
    await log.dropExpired();
    expect(segments('received')).toBe(1);
  });

  it('name, once, the stage that they are kept for past their retention', async () => {
    const told = new Told();
    const warnings = () => told.lines.filter((line) => line.startsWith('warn'));
    const log = await open({ logger: told.logger });
    const stage = copyStage({ reads: [{ topic: RECEIVED }] });
    await (await log.run(stage)).stop();
    await appendOneByOne(log, RECEIVED, 2);
    await log.dropExpired();
    expect(warnings()).toEqual([]);
    now += 2 * HOUR_MS;
    await log.dropExpired();
    await log.dropExpired();
    expect(warnings()).toEqual([
      expect.stringMatching(/^warn segments are kept past their retention .*"stage":"stage".*"offset":0/),
    ]);
  });

  it('of a topic group without further writes expire too', async () => {
    const log = await open({ segmentBytes: 1_000_000_000 });
    await appendOneByOne(log, RECEIVED, 5);
    expect(segments('received')).toBe(1);
    now += 2 * HOUR_MS;
    await log.dropExpired();
    now += 2 * HOUR_MS;
    await log.dropExpired();
    expect((await log.read(RECEIVED, PARTITION, 0)).entries).toEqual([]);
    expect(await log.end(RECEIVED, PARTITION)).toBe(5);
  });

  it('of the catalog stay forever', async () => {
    const log = await open();
    await appendOneByOne(log, TOPIC.catalog, 5);
    now += 1_000 * HOUR_MS;
    await log.dropExpired();
    expect(await valuesOf(log, TOPIC.catalog)).toEqual(numbers(5));
  });

  it('may be dropped by several processes at once, under a reader that is far behind', async () => {
    const [log, other] = [await open(), await open()];
    await appendOneByOne(log, RECEIVED, 10);
    expect((await other.read(RECEIVED, PARTITION, 0, { maxBytes: 1 })).next).toBe(1);
    now += 2 * HOUR_MS;
    await Promise.all([log.dropExpired(), other.dropExpired(), log.dropExpired()]);
    await log.append(RECEIVED, numbered('k', 1, 10));
    expect((await other.read(RECEIVED, PARTITION, 1)).entries.map(({ value }) => value)).toEqual(['10']);
  });

  it('keep positions, so that a stage continues after all its entries were dropped', async () => {
    const stage = copyStage();
    const log = await open();
    await appendOneByOne(log, SOURCE, 5);
    await runThrough(log, stage);
    now += 2 * HOUR_MS;
    await log.dropExpired();
    await log.append(SOURCE, numbered('k', 1, 5));
    await runThrough(log, stage);
    expect((await readPartition(log, TARGET, PARTITION)).map(({ value }) => value)).toEqual(['5']);
  });
});

describe('stages of the embedded event log', () => {
  it('that are being started when the log closes are at an end with it', async () => {
    const log = await open();
    const starting = log.run(copyStage());
    await log.close();
    await (await starting).ended;
  });

  it('end when the same stage starts elsewhere', async () => {
    const [log, other] = [await open(), await open()];
    const older = await log.run(copyStage());
    const newer = await other.run(copyStage());
    await log.append(SOURCE, numbered('k', 10));
    await expect(older.ended).rejects.toBeInstanceOf(Fenced);
    await caughtUp(newer);
    expect(await valuesOf(log, TARGET)).toEqual(numbers(10));
    await newer.stop();
  });

  it('may not emit to topics of another topic group, whose files have other transactions', async () => {
    const log = await open();
    for (const topic of [RECEIVED, TOPIC.catalog]) {
      await expect(log.run(copyStage({ writes: [topic] }))).rejects.toBeInstanceOf(InvalidInput);
    }
  });

  it('an append never waits for them: each topic group has its own writer', async () => {
    const log = await open({ segmentBytes: 1_000_000_000 });
    await log.append(SOURCE, numbered('k', 60));
    const locked = Promise.withResolvers<void>();
    const run = await log.run(
      batchStage(
        async ({ entries }) => {
          await locked.promise;
          return entries.map((entry) => copyOf(entry));
        },
        { maxEntries: 1 },
      ),
    );
    const [file = ''] = readdirSync(join(folder, 'stages')).filter((name) => name.endsWith('.db'));
    const stages = new DatabaseSync(join(folder, 'stages', file), { timeout: 5_000 });
    stages.exec('BEGIN IMMEDIATE');
    locked.resolve();
    await log.append(RECEIVED, numbered('k', 1));
    expect((await run.lag()).some(({ lag }) => lag === 60)).toBe(true);
    stages.close();
    await run.stop();
  });
});
