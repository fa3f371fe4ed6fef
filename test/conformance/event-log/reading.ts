import { type EventLog, InvalidInput, partitionOf } from '@tributary/core';
import { expect, it } from 'vitest';
import { type EventLogHarness, type Medium, PARTITIONS, RECEIVED, SOURCE } from './harness.ts';
import { numbered, numbers } from './log-contents.ts';

const PARTITION = partitionOf('k', PARTITIONS);

/** What `read` and `end` promise. */
export function describeReading(harness: EventLogHarness, medium: () => Medium, log: () => EventLog): void {
  it('reads from any offset on', async () => {
    const positions = await log().append(SOURCE, numbered('k', 50));
    for (const from of [0, 1, 25, 49]) {
      const { entries, next } = await log().read(SOURCE, PARTITION, positions[from]?.offset ?? -1);
      expect(entries.map(({ value }) => Number(value))).toEqual(numbers(50 - from, from));
      expect(next).toBeGreaterThan(positions[49]?.offset ?? Number.MAX_VALUE);
    }
  });

  it('reads about as many bytes as asked for, but never nothing', async () => {
    const value = JSON.stringify('x'.repeat(1_000));
    await log().append(
      SOURCE,
      numbers(30).map(() => ({ key: 'k', value, headers: {} })),
    );
    const few = await log().read(SOURCE, PARTITION, 0, { maxBytes: 5_000 });
    expect(few.entries.length).toBeGreaterThanOrEqual(1);
    expect(few.entries.length).toBeLessThan(10);
    expect((await log().read(SOURCE, PARTITION, 0, { maxBytes: 1 })).entries.length).toBeGreaterThanOrEqual(
      1,
    );
    let read = 0;
    for (let next = 0; read < 30; ) {
      const result = await log().read(SOURCE, PARTITION, next, { maxBytes: 3_000 });
      read += result.entries.length;
      next = result.next;
    }
    expect(read).toBe(30);
  });

  it('gives whole records of a packed topic, with every index', async () => {
    const positions = await log().append(RECEIVED, numbered('k', 10));
    const { entries } = await log().read(RECEIVED, PARTITION, 0, { maxBytes: 1 });
    expect(entries.map(({ position }) => position)).toEqual(positions);
  });

  it('says where the end is, to others too', async () => {
    const other = await harness.open(medium());
    const before = await other.end(SOURCE, PARTITION);
    expect((await other.read(SOURCE, PARTITION, before)).entries).toEqual([]);
    const [position] = await log().append(SOURCE, numbered('k', 1));
    expect(await log().end(SOURCE, PARTITION)).toBeGreaterThan(position?.offset ?? Number.MAX_VALUE);
    expect(await other.end(SOURCE, PARTITION)).toBe(await log().end(SOURCE, PARTITION));
    await other.close();
  });

  it('stamps entries with the time at which it took them', async () => {
    const before = Date.now();
    await log().append(SOURCE, numbered('k', 1));
    const { entries } = await log().read(SOURCE, PARTITION, 0);
    expect(entries[0]?.timestamp).toBeGreaterThanOrEqual(before);
    expect(entries[0]?.timestamp).toBeLessThanOrEqual(Date.now());
  });

  it.each(['the same', 'another'])('waits for what comes from %s process', async (whose) => {
    const other = whose === 'another' ? await harness.open(medium()) : log();
    await other.append(SOURCE, numbered('k', 1));
    const next = await log().end(SOURCE, PARTITION);
    const reading = log().read(SOURCE, PARTITION, next, { waitMs: 10_000 });
    await other.append(SOURCE, numbered('k', 1, 7));
    const appendedAt = performance.now();
    expect((await reading).entries.map(({ value }) => value)).toEqual(['7']);
    expect(performance.now() - appendedAt).toBeLessThan(2_000);
    if (other !== log()) await other.close();
  });

  it('waits as long as it was told, or until it is told to stop', async () => {
    const startedAt = performance.now();
    expect(await log().read(SOURCE, PARTITION, 0, { waitMs: 100 })).toEqual({ entries: [], next: 0 });
    expect(performance.now() - startedAt).toBeGreaterThan(90);
    const stopping = new AbortController();
    const reading = log().read(SOURCE, PARTITION, 0, { waitMs: 60_000, signal: stopping.signal });
    stopping.abort();
    expect((await reading).entries).toEqual([]);
  });

  it('refuses topics and partitions that do not exist, as InvalidInput', async () => {
    await expect(log().read('no.such.topic', 0, 0)).rejects.toBeInstanceOf(InvalidInput);
    await expect(log().read(SOURCE, PARTITIONS, 0)).rejects.toBeInstanceOf(InvalidInput);
    await expect(log().end(SOURCE, -1)).rejects.toBeInstanceOf(InvalidInput);
  });
}
