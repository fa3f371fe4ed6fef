import { type EventLog, InvalidInput, partitionOf } from '@tributary/core';
import { expect, it } from 'vitest';
import { type EventLogHarness, type Medium, PARTITIONS, RECEIVED, SOURCE } from './harness.ts';
import { eventually, numbered, numbers, readPartition } from './log-contents.ts';

const PARTITION = partitionOf('k', PARTITIONS);

/** The contract of `read` and `end`. */
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

  it('reports the end, to other processes too', async () => {
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

  it('finds entries received at a time or later, however many, and after some were dropped', async () => {
    // Larger than one segment of the embedded log.
    const value = JSON.stringify('x'.repeat(20_000));
    for (const _ of numbers(60)) {
      await log().append(SOURCE, [{ key: 'k', value, headers: {} }]);
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    const all = await readPartition(log(), SOURCE, PARTITION);
    const stamps = all.map(({ timestamp }) => timestamp);
    expect(new Set(stamps).size).toBeGreaterThan(10);
    const other = await harness.open(medium());
    const firstFrom = async (ms: number) => {
      const from = await other.offsetAt(SOURCE, PARTITION, ms);
      return (await other.read(SOURCE, PARTITION, from, { maxBytes: 1 })).entries[0]?.position;
    };
    const asked = stamps.filter((_, i) => i % 7 === 0).flatMap((ms) => [ms, ms + 1]);
    for (const ms of asked)
      expect(await firstFrom(ms)).toEqual(all.find(({ timestamp }) => timestamp >= ms)?.position);
    const [kept] = all.slice(40);
    await log().dropBelow(SOURCE, PARTITION, kept?.position.offset ?? -1);
    for (const ms of [0, stamps[3] ?? -1, stamps[40] ?? -1])
      await eventually(
        async () => (await firstFrom(ms))?.offset === kept?.position.offset,
        'it does not begin with what is kept',
      );
    await other.close();
  });

  it('reports the end for a time after the last entry', async () => {
    expect(await log().offsetAt(SOURCE, PARTITION, 0)).toBe(0);
    await log().append(SOURCE, numbered('k', 3));
    const end = await log().end(SOURCE, PARTITION);
    expect(await log().offsetAt(SOURCE, PARTITION, Date.now() + 3_600_000)).toBe(end);
    expect(await log().offsetAt(SOURCE, PARTITION, -1)).toBe(0);
    await expect(log().offsetAt(SOURCE, PARTITIONS, 0)).rejects.toBeInstanceOf(InvalidInput);
  });

  it.each(['the same', 'another'])('waits for entries from %s process', async (whose) => {
    const other = whose === 'another' ? await harness.open(medium()) : log();
    await other.append(SOURCE, numbered('k', 1));
    const next = await log().end(SOURCE, PARTITION);
    const reading = log().read(SOURCE, PARTITION, next, { waitMs: 60_000 });
    await other.append(SOURCE, numbered('k', 1, 7));
    const appendedAt = performance.now();
    expect((await reading).entries.map(({ value }) => value)).toEqual(['7']);
    expect(performance.now() - appendedAt).toBeLessThan(30_000);
    if (other !== log()) await other.close();
  });

  it('waits until its deadline, or until its signal stops it', async () => {
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
