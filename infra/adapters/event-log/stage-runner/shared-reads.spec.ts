import { describe, expect, it } from 'vitest';
import type { Taken } from './cursor.ts';
import { entriesFrom, type Read, RecentReads, SharedReads } from './shared-reads.ts';

/** The entries of these offsets, one in each record; `next` is behind records that are not visible. */
function readOf(
  offsets: readonly number[],
  from = offsets[0] ?? 0,
  next = (offsets.at(-1) ?? from) + 1,
): Read {
  const taken = offsets.map(
    (offset): Taken => ({
      entry: {
        position: { topic: 't', partition: 0, offset, index: 0 },
        key: '',
        value: `${offset}`,
        headers: {},
        timestamp: 0,
      },
      after: { offset: offset + 1, index: 0 },
    }),
  );
  return { from: { offset: from, index: 0 }, after: { offset: next, index: 0 }, taken };
}

const at = (offset: number) => ({ offset, index: 0 });
const values = (read: Read | undefined, offset: number) =>
  read && entriesFrom(read, at(offset)).map(({ entry }) => entry.value);

describe('RecentReads', () => {
  it('finds the entries read from the cursor on, and none behind the end', () => {
    const recent = new RecentReads();
    recent.add(readOf([4, 5, 6]));
    expect(values(recent.find(at(4)), 4)).toEqual(['4', '5', '6']);
    expect(values(recent.find(at(6)), 6)).toEqual(['6']);
    expect(recent.find(at(3))).toBeUndefined();
    expect(recent.find(at(7))).toBeUndefined();
  });

  it('goes past records that are not visible, also where there are no others', () => {
    const recent = new RecentReads();
    recent.add(readOf([], 2, 5));
    recent.add(readOf([7, 9], 5, 12));
    expect(values(recent.find(at(3)), 3)).toEqual([]);
    expect(values(recent.find(at(8)), 8)).toEqual(['9']);
    expect(values(recent.find(at(10)), 10)).toEqual([]);
  });

  it('takes the second of two entries in a record', () => {
    const [one] = readOf([3]).taken;
    const entries = [0, 1].map((index): Taken => {
      const position = { topic: 't', partition: 0, offset: 3, index };
      const after = index === 0 ? { offset: 3, index: 1 } : at(4);
      return { entry: { ...(one as Taken).entry, position, value: `3/${index}` }, after };
    });
    const read = { from: at(3), after: at(4), taken: entries };
    expect(entriesFrom(read, { offset: 3, index: 1 }).map(({ entry }) => entry.value)).toEqual(['3/1']);
  });

  it('keeps the last four', () => {
    const recent = new RecentReads();
    for (let offset = 0; offset < 5; offset++) recent.add(readOf([offset]));
    expect(recent.find(at(0))).toBeUndefined();
    expect(values(recent.find(at(1)), 1)).toEqual(['1']);
  });

  it('waits for the request of another stage, and finds its answer later', async () => {
    const recent = new RecentReads();
    const answer = Promise.withResolvers<Read>();
    let requests = 0;
    const request = () => {
      requests++;
      return answer.promise;
    };
    const both = [recent.findOr(8, request), recent.findOr(8, request)];
    answer.resolve(readOf([8, 9]));
    const [first, second] = await Promise.all(both);
    expect(second).toBe(first);
    expect(await recent.findOr(9, request)).toBe(first);
    expect(requests).toBe(1);
  });

  it.each([
    ['stopped', () => Promise.resolve(undefined)],
    ['failed', () => Promise.reject(new Error('gone'))],
  ])('requests for itself where the other stage %s', async (_, others) => {
    const recent = new RecentReads();
    const first = recent.findOr(8, others).catch(() => 'failed');
    const second = recent.findOr(8, async () => readOf([8]));
    expect(values(await second, 8)).toEqual(['8']);
    expect(await first).not.toEqual(expect.objectContaining({ taken: expect.anything() }));
  });
});

describe('SharedReads', () => {
  it('keeps reads of topics that more than one stage reads, while they do', () => {
    const shared = new SharedReads();
    shared.join(['a', 'b']);
    expect(shared.of('a', 0)).toBeUndefined();
    const leave = shared.join(['a']);
    shared.of('a', 0)?.add(readOf([1]));
    expect(values(shared.of('a', 0)?.find(at(1)), 1)).toEqual(['1']);
    expect(shared.of('a', 1)?.find(at(1))).toBeUndefined();
    expect(shared.of('b', 0)).toBeUndefined();
    leave();
    expect(shared.of('a', 0)).toBeUndefined();
    shared.join(['a']);
    expect(shared.of('a', 0)?.find(at(1))).toBeUndefined();
  });
});
