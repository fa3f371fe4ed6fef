import { type LogEntry, type NewEntry, type ReadResult, TOPIC } from '@tributary/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { CrashWatch, crashEntries, InFlightMemory, InFlightTable, SuspectIsolation } from './suspects.ts';

const never = new AbortController().signal;

function entry(offset: number, index = 0, timestamp = 5): LogEntry {
  const position = { topic: 't', partition: 1, offset, index };
  return { position, key: '', value: '', headers: {}, timestamp };
}

function table() {
  const inFlight = new InFlightMemory(4);
  const written = new InFlightTable(inFlight.memory, (slot, name) => inFlight.named(slot, name));
  return { written, inFlight: () => inFlight.ranges() };
}

/** The notes of crashes of a log with these entries. */
async function suspectsOf(notes: readonly NewEntry[]) {
  const entries = notes.map((note, offset): LogEntry => {
    return { ...note, position: { topic: TOPIC.crashes, partition: 0, offset, index: 0 }, timestamp: 0 };
  });
  const read = async (_topic: string, _partition: number, from: number): Promise<ReadResult> => {
    return { entries: entries.slice(from), next: entries.length };
  };
  const topics = new Map([
    [TOPIC.crashes, { name: TOPIC.crashes, partitions: 1, packed: false, retentionMs: 1 }],
  ]);
  const watch = new CrashWatch({ topics, read, end: async () => entries.length });
  return watch.suspectsOf({ name: 's' }, 't', 1);
}

describe('the table of entries in progress', () => {
  it('has the entries that are dispatched and not committed', () => {
    const { written, inFlight } = table();
    const slot = written.open({ stage: 's', topic: 't', partition: 1 });
    expect(inFlight()).toEqual([]);
    for (const offset of [3, 4, 5]) slot.take(entry(offset));
    slot.passed({ offset: 4, index: 0 });
    expect(inFlight()).toMatchObject([
      { stage: 's', partition: 1, from: { offset: 4, index: 0 }, to: { offset: 5, index: 0 }, alone: false },
    ]);
    slot.clear();
    expect(written.isEmpty).toBe(true);
    expect(inFlight()).toEqual([]);
  });

  it('takes no more partitions than it has room for, and the stages continue', () => {
    const { written, inFlight } = table();
    for (let partition = 0; partition < 6; partition++)
      written.open({ stage: 's', topic: 't', partition }).take(entry(1));
    expect(inFlight()).toHaveLength(4);
  });
});

describe('an entry that was in hand when the process ended', () => {
  const alone = (offset: number) => {
    const { written, inFlight } = table();
    const slot = written.open({ stage: 's', topic: 't', partition: 1 });
    slot.alone = true;
    slot.take(entry(offset));
    return { written, inFlight };
  };

  it('is a suspect, and is not guilty: others were in hand, or it was not alone on purpose', async () => {
    const { written, inFlight } = table();
    written.open({ stage: 's', topic: 't', partition: 1 }).take(entry(3));
    const suspects = await suspectsOf(crashEntries(inFlight(), 'heap', 'now'));
    expect(suspects.treatmentOf(entry(3))).toBe('alone');
    expect(suspects.treatmentOf(entry(4))).toBe('normal');
  });

  it('is guilty when it was dispatched alone and no other entry of the process was in hand', async () => {
    const suspects = await suspectsOf(crashEntries(alone(3).inFlight(), 'heap', 'now'));
    expect(suspects.treatmentOf(entry(3))).toEqual({ quarantined: 'heap' });
  });

  it('is not, when a stage of another partition had anything in hand', async () => {
    const { written, inFlight } = alone(3);
    written.open({ stage: 'other', topic: 't', partition: 0 }).take(entry(9));
    const suspects = await suspectsOf(crashEntries(inFlight(), 'heap', 'now'));
    expect(suspects.treatmentOf(entry(3))).toBe('alone');
  });

  it('is not, when the topic was created again and another entry has its offset', async () => {
    const suspects = await suspectsOf(crashEntries(alone(3).inFlight(), 'heap', 'now'));
    expect(suspects.treatmentOf(entry(3, 0, 6))).toBe('alone');
  });

  it('is dispatched like any other after a while, which is longer after a second crash', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { written, inFlight } = table();
    written.open({ stage: 's', topic: 't', partition: 1 }).take(entry(3));
    const notes = crashEntries(inFlight(), 'heap', 'now');
    const [once, twice] = [await suspectsOf(notes), await suspectsOf([...notes, ...notes])];
    vi.advanceTimersByTime(40_000);
    expect([once, twice].map((suspects) => suspects.treatmentOf(entry(3)))).toEqual(['normal', 'alone']);
    expect(
      once.cut([entry(2), entry(3)].map((each) => ({ entry: each, after: each.position }))),
    ).toHaveLength(2);
  });

  it('a malformed note stops no stage', async () => {
    const broken = ['', 'null', '{"ranges":7}', '{"ranges":[null,{"from":1}]}'];
    const notes = broken.map((value) => ({ key: '', value, headers: {} }));
    expect((await suspectsOf(notes)).treatmentOf(entry(1))).toBe('normal');
  });
});

describe('suspects', () => {
  it('go one at a time, while others are held back', async () => {
    const { written } = table();
    const isolation = new SuspectIsolation(written);
    const slots = [0, 1].map((partition) => written.open({ stage: 's', topic: 't', partition }));
    const running = new Set<number>();
    let most = 0;
    await Promise.all(
      slots.map((slot, i) =>
        isolation.alone(
          slot,
          async () => {
            running.add(i);
            most = Math.max(most, running.size);
            expect(isolation.dispatchPause).toBeDefined();
            expect(slot.alone).toBe(true);
            await new Promise((resolve) => setTimeout(resolve, 5));
            running.delete(i);
          },
          never,
        ),
      ),
    );
    expect(most).toBe(1);
    await isolation.dispatchPause;
    expect(isolation.dispatchPause).toBeUndefined();
  });

  it('that hang held all others back for two seconds each: others are held for the time of isolation', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { written } = table();
    const isolation = new SuspectIsolation(written);
    written.open({ stage: 's', topic: 't', partition: 9 }).take(entry(1)); // never finishes
    const began: number[] = [];
    for (let partition = 0; partition < 100; partition++) {
      const slot = written.open({ stage: 's', topic: 't', partition });
      void isolation.alone(slot, () => new Promise(() => void began.push(performance.now())), never);
    }
    await vi.advanceTimersByTimeAsync(29_000);
    expect(isolation.dispatchPause).toBeDefined();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(isolation.dispatchPause).toBeUndefined();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(began).toHaveLength(100);
  });

  it('the wait for a slow one ends, and the others continue', async () => {
    const { written } = table();
    const isolation = new SuspectIsolation(written);
    const slot = written.open({ stage: 's', topic: 't', partition: 0 });
    await isolation.alone(slot, () => new Promise(() => {}), never);
    await isolation.dispatchPause;
    expect(isolation.dispatchPause).toBeUndefined();
  });
});
