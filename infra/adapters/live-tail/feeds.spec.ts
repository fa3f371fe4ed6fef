import { TAIL_LIMITS, type TailItem, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { Feed, idOf, type NumberedEvent, type TailPart } from './feeds.ts';

function events(era: string, from: number, to: number): readonly NumberedEvent[] {
  return Array.from({ length: to - from }, (_, index) => {
    const number = from + index;
    return {
      id: idOf(era, 0, number),
      era,
      number,
      environment: 'production',
      data: `${era}${number}`,
    } as const;
  });
}

/** A feed with a source that returns the events, or the error, of the test. */
function setUp() {
  let time = 0;
  let result: readonly NumberedEvent[] | Error = [];
  const source = {
    async read(): Promise<TailPart> {
      if (result instanceof Error) throw result;
      const part = { events: result, next: 'on', more: false };
      result = [];
      return part;
    },
    watch() {},
    unwatch() {},
    async close() {},
  };
  const feed = new Feed('w', source, TAIL_LIMITS, () => time);
  return {
    feed,
    pass(ms: number) {
      time += ms;
    },
    async read(what: readonly NumberedEvent[] | Error): Promise<void> {
      result = what;
      await feed.refresh();
    },
    follow: (after?: string) =>
      feed.follow({ wake() {}, ...(after === undefined ? {} : { after }) }, () => {}),
  };
}

const summary = (items: readonly TailItem[]) =>
  items.map((item) =>
    item.kind === 'event' ? item.event.data : item.kind === 'missed' ? `missed ${item.count}` : item.kind,
  );

it('reports a loss when a tail restarted while events arrived', async () => {
  const { read, follow } = setUp();
  await read(events('a', 1, 4));
  const follower = follow();
  expect(summary(follower.take(100))).toEqual(['a1', 'a2', 'a3']);
  await read(events('b', 1, 3));
  expect(summary(follower.take(100))).toEqual(['missed undefined', 'b1', 'b2']);
});

it('reported a loss at the first event after an hour without one, when the tail had only expired', async () => {
  const { read, follow, pass } = setUp();
  await read(events('a', 1, 4));
  const follower = follow();
  follower.take(100);
  pass(TAIL_LIMITS.retentionMs);
  await read(events('b', 1, 3));
  expect(summary(follower.take(100))).toEqual(['b1', 'b2']);
  await read(events('b', 3, 4));
  expect(summary(follower.take(100))).toEqual(['b3']);
});

it('reports a loss when numbers decrease, as after a failover', async () => {
  const { read, follow } = setUp();
  await read(events('a', 1, 10));
  const follower = follow();
  follower.take(100);
  await read(events('a', 7, 9).map((event) => ({ ...event, id: idOf('a', 'later', event.number) })));
  expect(summary(follower.take(100))).toEqual(['missed undefined', 'a7', 'a8']);
});

it('counts the events in a gap and the events not taken before it', async () => {
  const { read, follow } = setUp();
  await read(events('a', 1, 4));
  const follower = follow();
  expect(summary(follower.take(1))).toEqual(['a1']);
  await read(events('a', 10, 12));
  expect(summary(follower.take(100))).toEqual(['missed 8', 'a10', 'a11']);
});

it('reports an interruption once, after the events it still had, and its end', async () => {
  const { read, follow } = setUp();
  await read(events('a', 1, 3));
  const follower = follow();
  await expect(read(new Unavailable('down'))).rejects.toThrow(Unavailable);
  expect(summary(follower.take(1))).toEqual(['a1']);
  expect(summary(follower.take(100))).toEqual(['a2', 'interrupted']);
  await expect(read(new Unavailable('down'))).rejects.toThrow(Unavailable);
  expect(summary(follower.take(100))).toEqual([]);
  await read(events('a', 3, 4));
  expect(summary(follower.take(100))).toEqual(['resumed', 'a3']);
});
