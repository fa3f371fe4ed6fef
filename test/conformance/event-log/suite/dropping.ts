import { type EventLog, InvalidInput, partitionOf } from '@tributary/core';
import { expect, it } from 'vitest';
import { type EventLogHarness, type Medium, OTHER_TARGET, PARTITIONS, RECEIVED, SOURCE } from './harness.ts';
import { eventually, numbered, numbers, readPartition } from './log-contents.ts';
import { batchStage, copyStage, eachOf, runThrough } from './stages.ts';

const PARTITION = partitionOf('k', PARTITIONS);
/** Larger than one segment of the embedded log. */
const LARGE = 'x'.repeat(20_000);

/** The contract of `first`, `positionOf` and `dropBelow`. */
export function describeDropping(harness: EventLogHarness, medium: () => Medium, log: () => EventLog): void {
  const valuesFrom = async (from: number, of = log()) =>
    (await readPartition(of, SOURCE, PARTITION, from)).map(({ value }) => Number(value));
  /** One append each, so that the offsets differ even where a record holds several entries. */
  async function append(count: number, first = 0): Promise<readonly number[]> {
    const offsets: number[] = [];
    for (const n of numbers(count, first)) {
      const [position] = await log().append(SOURCE, numbered('k', 1, n));
      offsets.push(position?.offset ?? -1);
    }
    return offsets;
  }

  it('leaves what lies at the offset and above, for readers from anywhere, and for others', async () => {
    const other = await harness.open(medium());
    const offsets = await append(20);
    expect(await valuesFrom(0, other)).toEqual(numbers(20));
    expect(await log().first(SOURCE, PARTITION)).toBe(offsets[0]);
    await log().dropBelow(SOURCE, PARTITION, offsets[12] ?? -1);
    for (const each of [log(), other]) {
      await eventually(
        async () => (await each.first(SOURCE, PARTITION)) === offsets[12],
        'it does not say what it keeps',
      );
      for (const from of [0, offsets[5] ?? -1, offsets[12] ?? -1])
        expect(await valuesFrom(from, each)).toEqual(numbers(8, 12));
      expect(await valuesFrom(offsets[15] ?? -1, each)).toEqual(numbers(5, 15));
    }
    await other.close();
  });

  it('continues with the existing offsets, also where nothing is left', async () => {
    const offsets = await append(5);
    const end = await log().end(SOURCE, PARTITION);
    await log().dropBelow(SOURCE, PARTITION, end);
    expect(await log().first(SOURCE, PARTITION)).toBe(end);
    expect((await log().read(SOURCE, PARTITION, 0)).entries).toEqual([]);
    expect((await log().read(SOURCE, PARTITION, 0, { waitMs: 50 })).entries).toEqual([]);
    const [next] = await append(1, 5);
    expect(next).toBeGreaterThan(offsets[4] ?? Number.MAX_VALUE);
    expect(await valuesFrom(0)).toEqual([5]);
  });

  it('is passed by a reader below it and by a stage that is behind, also where nothing is left', async () => {
    const handled: string[] = [];
    const stage = batchStage(eachOf(({ value }) => void handled.push(value)));
    await (await log().run(stage)).stop();
    await append(3);
    const end = await log().end(SOURCE, PARTITION);
    await log().dropBelow(SOURCE, PARTITION, end);
    await eventually(
      async () => (await log().read(SOURCE, PARTITION, 0, { waitMs: 50 })).next === end,
      'who reads stands still below what was dropped',
    );
    const run = await log().run(stage);
    await append(1, 3);
    await eventually(async () => handled.includes('3'), 'the stage stands still below what was dropped');
    await run.stop();
    expect(handled).toEqual(['3']);
  });

  it('may be asked for again, for less, and by several at once', async () => {
    const offsets = await append(10);
    const other = await harness.open(medium());
    const below = (n: number) => offsets[n] ?? -1;
    await Promise.all([
      log().dropBelow(SOURCE, PARTITION, below(4)),
      other.dropBelow(SOURCE, PARTITION, below(6)),
    ]);
    await log().dropBelow(SOURCE, PARTITION, below(6));
    await log().dropBelow(SOURCE, PARTITION, below(2));
    await log().dropBelow(SOURCE, PARTITION, 0);
    expect(await valuesFrom(0)).toEqual(numbers(4, 6));
    await other.close();
  });

  it('leaves other partitions and topics alone', async () => {
    await append(5);
    await log().append(OTHER_TARGET, numbered('k', 5));
    await log().append(RECEIVED, numbered('k', 5));
    await log().dropBelow(SOURCE, PARTITION, await log().end(SOURCE, PARTITION));
    for (const topic of [OTHER_TARGET, RECEIVED])
      expect((await readPartition(log(), topic, PARTITION)).map(({ value }) => Number(value))).toEqual(
        numbers(5),
      );
  });

  it('drops entries of several files, beside appends and reads', async () => {
    const value = JSON.stringify(LARGE);
    const large = async () => {
      const [position] = await log().append(SOURCE, [{ key: 'k', value, headers: {} }]);
      return position?.offset ?? -1;
    };
    const offsets: number[] = [];
    for (let n = 0; n < 80; n++) offsets.push(await large());
    const keep = offsets[70] ?? -1;
    const other = await harness.open(medium());
    const beside = (async () => {
      for (let n = 0; n < 20; n++) offsets.push(await large());
    })();
    const reading = (async () => {
      const seen: number[] = [];
      for (let next = 0; next < keep; ) {
        const read = await other.read(SOURCE, PARTITION, next);
        seen.push(...read.entries.map(({ position }) => position.offset));
        next = read.next;
      }
      return seen;
    })();
    await log().dropBelow(SOURCE, PARTITION, keep);
    await beside;
    const seen = await reading;
    // In order; positions missing here were dropped before they were read.
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(seen.filter((offset) => offset >= keep)).toEqual(
      offsets.filter((offset) => offset >= keep && offset <= (seen.at(-1) ?? -1)),
    );
    expect((await readPartition(other, SOURCE, PARTITION)).map(({ position }) => position.offset)).toEqual(
      offsets.filter((offset) => offset >= keep),
    );
    await other.close();
  });

  it('refuses a position past the end, as InvalidInput', async () => {
    await append(3);
    const end = await log().end(SOURCE, PARTITION);
    await expect(log().dropBelow(SOURCE, PARTITION, end + 1)).rejects.toBeInstanceOf(InvalidInput);
    await expect(log().first('no.such.topic', 0)).rejects.toBeInstanceOf(InvalidInput);
    await expect(log().dropBelow(SOURCE, PARTITIONS, 0)).rejects.toBeInstanceOf(InvalidInput);
    expect(await valuesFrom(0)).toEqual(numbers(3));
  });

  it('reports where a stage continues, also while it does not run; of one that never ran, nothing', async () => {
    const stage = copyStage();
    // The coordinator that stores the stages' positions may have to be looked up first.
    const nowhere = async () => (await log().positionOf(stage.name, SOURCE, PARTITION)) === undefined;
    await eventually(nowhere, 'a stage that never ran is somewhere');
    await append(5);
    await runThrough(log(), stage);
    const end = await log().end(SOURCE, PARTITION);
    const other = await harness.open(medium());
    expect(await other.positionOf(stage.name, SOURCE, PARTITION)).toBe(end);
    await append(5, 5);
    expect(await other.positionOf(stage.name, SOURCE, PARTITION)).toBe(end);
    expect(await other.positionOf('another', SOURCE, PARTITION)).toBeUndefined();
    await other.close();
  });
}
