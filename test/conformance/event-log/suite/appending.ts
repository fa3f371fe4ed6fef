import { type EventLog, InvalidInput, Overloaded, partitionOf, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { startChild } from '../programs/child-process.ts';
import { type EventLogHarness, type Medium, PARTITIONS, RECEIVED, SOURCE } from './harness.ts';
import { eventually, numbered, numbers, readAll, readPartition, valuesOf } from './log-contents.ts';

const SIGKILLS = process.env.TRIBUTARY_TEST_LONG ? 20 : 2;

/** The contract of `append`. */
export function describeAppending(harness: EventLogHarness, medium: () => Medium, log: () => EventLog): void {
  it('returns the position of each entry, in order', async () => {
    const entries = ['a', 'b', 'c', 'd', 'e'].map((key) => ({
      key,
      value: `"${key}"`,
      headers: { type: key },
    }));
    const positions = await log().append(SOURCE, entries);
    expect(positions).toHaveLength(5);
    for (const [i, entry] of entries.entries()) {
      const [position] = positions.slice(i);
      expect(position).toMatchObject({
        topic: SOURCE,
        partition: partitionOf(entry.key, PARTITIONS),
        index: 0,
      });
      const { entries: read } = await log().read(SOURCE, position?.partition ?? -1, position?.offset ?? -1);
      expect(read[0]).toMatchObject({ ...entry, position });
    }
  });

  it('keeps the order of the calls for each key', async () => {
    const appends = numbers(300).map((n) => log().append(SOURCE, numbered(`k${n % 7}`, 1, n)));
    await Promise.all(appends);
    const read = await readAll(log(), SOURCE);
    for (let key = 0; key < 7; key++) {
      const values = read.filter((entry) => entry.key === `k${key}`).map(({ value }) => Number(value));
      expect(values).toEqual(numbers(300).filter((n) => n % 7 === key));
    }
  });

  it('packs entries with the same partition and headers into one record, and reads back all that it acknowledged', async () => {
    const headers = { 'catalog-position': '4' };
    const entries = numbers(20).map((n) => ({
      key: 'same',
      value: JSON.stringify({ n }),
      headers: { ...headers },
    }));
    const positions = await log().append(RECEIVED, entries);
    expect(new Set(positions.map(({ offset }) => offset)).size).toBe(1);
    expect(positions.map(({ index }) => index)).toEqual(numbers(20));

    const read = await readPartition(log(), RECEIVED, partitionOf('same', PARTITIONS));
    expect(read.map(({ position }) => position)).toEqual(positions);
    expect(read.map(({ value }) => value)).toEqual(entries.map(({ value }) => value));
    expect(read.every((entry) => entry.key === '' && entry.headers['catalog-position'] === '4')).toBe(true);
  });

  it('keeps the order of a key on a packed topic when headers alternate', async () => {
    const [a, b] = [{ 'catalog-position': '1' }, { 'catalog-position': '2' }];
    await Promise.all(
      numbers(40).map((n) =>
        log().append(RECEIVED, [{ key: 'same', value: String(n), headers: n % 3 ? a : b }]),
      ),
    );
    const read = await readPartition(log(), RECEIVED, partitionOf('same', PARTITIONS));
    expect(read.map(({ value }) => Number(value))).toEqual(numbers(40));
    for (const { value, headers } of read) expect(headers).toEqual(Number(value) % 3 ? a : b);
  });

  it.each([RECEIVED, SOURCE])('returns the same text from %s, with any characters', async (topic) => {
    const texts = ['ünïcödé 🙂', 'line\nbreak', '\u0000nul', 'back\\slash "quoted"', '', 'x'.repeat(900_000)];
    const values = texts.map((text) => JSON.stringify({ text }));
    await log().append(
      topic,
      values.map((value) => ({ key: 'k', value, headers: { type: 'tr\näck' } })),
    );
    const read = await readPartition(log(), topic, partitionOf('k', PARTITIONS));
    expect(read.map(({ value }) => value)).toEqual(values);
    expect(read.every(({ headers }) => headers.type === 'tr\näck')).toBe(true);
  });

  it('refuses unacceptable entries as InvalidInput', async () => {
    const append = (topic: string, value: string) => log().append(topic, [{ key: 'k', value, headers: {} }]);
    await expect(append('no.such.topic', '1')).rejects.toBeInstanceOf(InvalidInput);
    await expect(append(SOURCE, 'ü'.repeat(600 * 1024))).rejects.toBeInstanceOf(InvalidInput);
    await expect(append(RECEIVED, '{\n}')).rejects.toBeInstanceOf(InvalidInput);
    expect(await log().append(SOURCE, [])).toEqual([]);
  });

  it('refuses a call beyond the bound of unconfirmed bytes as a whole, and accepts the others', async () => {
    const bounded = await harness.open(medium(), { maxUnconfirmedBytes: 50_000 });
    const pad = 'x'.repeat(1_000);
    const outcomes = await Promise.allSettled(
      numbers(200).map((n) =>
        bounded.append(SOURCE, [{ key: `k${n}`, value: JSON.stringify({ n, pad }), headers: {} }]),
      ),
    );
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(refused.length).toBeGreaterThan(100);
    for (const { reason } of refused) expect(reason).toBeInstanceOf(Overloaded);
    expect((await readAll(bounded, SOURCE)).length).toBe(200 - refused.length);
    await bounded.append(SOURCE, numbered('after', 1));
    await bounded.close();
  });

  it('is Unavailable while the engine does not answer, and healthy afterwards', async () => {
    await log().append(SOURCE, numbered('k', 1));
    const restore = await harness.outage(medium());
    const outcomes = await Promise.allSettled(
      numbers(5).map((n) => log().append(SOURCE, numbered('k', 1, 100 + n))),
    );
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(Unavailable) });
    }
    await restore();
    await eventually(async () => (await log().append(SOURCE, numbered('k', 1, 1))).length === 1, 'an append');
    expect(await valuesOf(log(), SOURCE)).toEqual(expect.arrayContaining([0, 1]));
  });

  it('waits on close for appends in flight, and accepts none afterwards', async () => {
    const other = await harness.open(medium());
    const appends = numbers(20).map((n) => other.append(SOURCE, numbered('k', 1, n)));
    await other.close();
    await Promise.all(appends);
    await other.close();
    expect(await valuesOf(log(), SOURCE)).toEqual(numbers(20));
    await expect(other.append(SOURCE, numbered('k', 1))).rejects.toBeInstanceOf(Unavailable);
  });

  it('lets several processes create the topics and append at once', async () => {
    const logs = await Promise.all(numbers(3).map(() => harness.open(medium())));
    await Promise.all(logs.map((one) => one.createTopics()));
    await Promise.all(
      logs.flatMap((one, i) => numbers(20).map((n) => one.append(SOURCE, numbered(`k${i}`, 1, n)))),
    );
    const read = await readAll(log(), SOURCE);
    for (let i = 0; i < 3; i++) {
      expect(read.filter(({ key }) => key === `k${i}`).map(({ value }) => Number(value))).toEqual(
        numbers(20),
      );
    }
    await Promise.all(logs.map((one) => one.close()));
  });

  it('keeps every entry that it acknowledged to a killed process', async () => {
    const acknowledged: { topic: string; caller: string; n: number }[] = [];
    for (let run = 0; run < SIGKILLS; run++) {
      const child = startChild(harness, medium(), { mode: 'append', run, callers: 16 });
      const wanted = 200 + Math.floor(Math.random() * 1_500);
      await child.saw(() => child.lines.length > wanted);
      await child.kill();
      for (const line of child.lines) if (line.acknowledged) acknowledged.push(line.acknowledged);
    }
    expect(acknowledged.length).toBeGreaterThan(SIGKILLS * 200);
    for (const topic of [SOURCE, RECEIVED]) {
      const read = new Map<string, number[]>();
      for (const { value } of await readAll(log(), topic)) {
        const { caller, n } = JSON.parse(value);
        read.set(caller, [...(read.get(caller) ?? []), n]);
      }
      for (const numbersRead of read.values()) expect(numbersRead).toEqual(numbers(numbersRead.length));
      for (const { caller, n } of acknowledged.filter((one) => one.topic === topic)) {
        expect(read.get(caller)?.length, `${caller} ${n}`).toBeGreaterThan(n);
      }
    }
  });
}
