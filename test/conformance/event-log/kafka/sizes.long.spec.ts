import { setTimeout } from 'node:timers/promises';
import {
  FRAME_MARKER,
  MAX_VALUE_BYTES,
  PUBLIC_SCHEMAS,
  TOPIC,
  unframeValue,
  type ValueFraming,
} from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { RECEIVED, SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, gate, numbered, numbers, readAll, valuesOf } from '../suite/log-contents.ts';
import { batchStage, copyOf, copyStage, eachOf, poisoned, runThrough } from '../suite/stages.ts';
import { type Installation, install, type Opened } from './installation/installation.ts';

const MIB = 1024 * 1024;
const KIB = 1024;
const brokers = engines()?.kafkaBrokers ?? '';

describe.skipIf(engines() === undefined)('values on Kafka', () => {
  let installed: Installation | undefined;
  afterEach(() => installed?.dispose());

  async function openWith(
    partitions: number,
    options: Parameters<Installation['open']>[0] = {},
  ): Promise<Opened> {
    installed = await install(brokers, partitions);
    return installed.open({ appendTimeoutMs: 20_000, ...options });
  }

  it('the largest there may be is appended, copied and read', async () => {
    const { log } = await openWith(2);
    const value = JSON.stringify('x'.repeat(MAX_VALUE_BYTES - 2));
    for (const topic of [SOURCE, RECEIVED])
      await log.append(topic, [{ key: 'k', value, headers: { a: 'b' } }]);
    await runThrough(log, copyStage({ reads: [{ topic: SOURCE }, { topic: RECEIVED }] }));
    const copies = await readAll(log, TARGET);
    expect(copies.map((copy) => copy.value === value)).toEqual([true, true]);
  });

  // JSON inside JSON: quotes and backslashes become two bytes each.
  it('the largest possible one is dead-lettered on stages.dead, where it is twice as large', async () => {
    const { log } = await openWith(2);
    const value = JSON.stringify('"'.repeat(MAX_VALUE_BYTES / 2 - 1));
    expect(Buffer.byteLength(value)).toBe(MAX_VALUE_BYTES);
    await log.append(SOURCE, [{ key: 'k', value, headers: { a: '"'.repeat(1_000) } }, ...numbered('k', 1)]);
    const stage = batchStage(
      eachOf((entry) => {
        if (entry.value === value) throw new Error('too much');
      }),
    );
    await runThrough(log, stage);
    expect(await valuesOf(log, TARGET)).toEqual([0]);
    expect((await poisoned(log)).map(({ entry }) => entry.value === value)).toEqual([true]);
  });

  it('a thousand of 30 KiB go to one partition in one transaction, in order', async () => {
    const { log } = await openWith(1);
    await log.append(SOURCE, numbered('k', 1));
    const filling = 'x'.repeat(30 * KIB);
    const stage = batchStage(async () =>
      numbers(1_000).map((n) => ({
        topic: TARGET,
        key: 'k',
        value: JSON.stringify({ n, filling }),
        headers: {},
      })),
    );
    await runThrough(log, stage);
    expect((await valuesOf(log, TARGET)).map((value) => (value as { n: number }).n)).toEqual(numbers(1_000));
  });

  it('a stage that is slow holds a bounded part of its backlog', async () => {
    const { log } = await openWith(8);
    const filling = 'x'.repeat(100 * KIB);
    for (let n = 0; n < 2_000; n += 100) {
      await log.append(
        SOURCE,
        numbers(100, n).map((i) => ({ key: `key${i}`, value: JSON.stringify({ i, filling }), headers: {} })),
      );
    }
    globalThis.gc?.();
    const before = heapBytes();
    let most = 0;
    let batches = 0;
    const slow = gate();
    const run = await log.run(
      batchStage(
        async () => {
          batches++;
          await Promise.race([setTimeout(400), slow.opened]);
          return [];
        },
        { maxEntries: 2 },
      ),
    );
    await eventually(
      () => {
        most = Math.max(most, heapBytes() - before);
        return batches > 40;
      },
      'it does not get on',
      60_000,
    );
    console.log(`a backlog of 200 MB on 8 partitions: ${(most / MIB).toFixed()} MB held at most`);
    expect(most).toBeLessThan(120 * MIB);
    slow.open();
    await run.stop();
  });

  it('public topics are framed by appends and by stages, and read as they were', async () => {
    const { log } = await openWith(2, { framing: MARKED });
    await log.append(SOURCE, numbered('k', 3));
    await log.append(RECEIVED, numbered('k', 3));
    const bytes = new Map<string, readonly boolean[]>();
    const stage = batchStage(
      async ({ entries }) =>
        entries.flatMap((entry) => [copyOf(entry, TOPIC.violations), copyOf(entry, TARGET)]),
      { reads: [{ topic: SOURCE }] },
    );
    await runThrough(log, stage);
    await runThrough(log, copyStage({ name: 'second', reads: [{ topic: TOPIC.violations }] }));
    for (const topic of [SOURCE, RECEIVED, TOPIC.violations])
      expect(await valuesOf(log, topic)).toEqual(numbers(3));
    expect(await valuesOf(log, TARGET)).toEqual([...numbers(3), ...numbers(3)]);
    const plain = await installed?.open({ framing: BARE });
    if (!plain) throw new Error('not installed');
    for (const topic of [SOURCE, RECEIVED, TOPIC.violations, TARGET])
      bytes.set(
        topic,
        (await readAll(plain.log, topic)).map(({ value }) => value.startsWith('framed ')),
      );
    expect(Object.fromEntries([...bytes].map(([topic, framed]) => [topic, new Set(framed)]))).toEqual({
      [SOURCE]: new Set([true]),
      [RECEIVED]: new Set([false]),
      [TOPIC.violations]: new Set([true]),
      [TARGET]: new Set([false]),
    });
  });
});

function heapBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const MARKED: ValueFraming = {
  frame: (topic, json) =>
    PUBLIC_SCHEMAS.has(topic)
      ? Buffer.concat([Buffer.from([FRAME_MARKER, 0, 0, 0, 7]), Buffer.from(json)])
      : Buffer.from(json),
  unframe: (_topic, bytes) => unframeValue(bytes),
  close: async () => {},
};

/** Reads values with a mark on the framed ones, to show the stored layout. */
const BARE: ValueFraming = {
  ...MARKED,
  unframe: (_topic, bytes) => `${bytes[0] === FRAME_MARKER ? 'framed ' : ''}${unframeValue(bytes)}`,
};
