import { type DeliveryResult, HEADER, type LogEntry, parseRetrySchedule } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { DESTINATION, DOWN, OK, setUp, setUpHanging, turn } from './deliveries.fixture.ts';
import { retrySources } from './stage.ts';

const [IN_TEN = { topic: '' }] = retrySources(parseRetrySchedule(['10s']), { recall: () => false });

function entryOf(headers: LogEntry['headers'], timestamp = 5_000): LogEntry {
  const position = { topic: IN_TEN.topic, partition: 0, offset: 0, index: 0 };
  return { key: 'k', value: '{}', headers: { [HEADER.messageId]: 'm', ...headers }, timestamp, position };
}

const DEFERRED = { [HEADER.scheduledAt]: '99000', [HEADER.destinationId]: 'destination' };

describe('the retry topics', () => {
  it('hold what failed for their time, and up to a fifth longer', () => {
    const due = IN_TEN.dueAt?.(entryOf({})) ?? 0;
    expect(due).toBeGreaterThanOrEqual(15_000);
    expect(due).toBeLessThanOrEqual(17_000);
  });

  it('hold deferred deliveries until their slots, unless their destination has room', () => {
    const asked: string[] = [];
    const remote = { hasRoom: false };
    const [source] = retrySources(parseRetrySchedule(['10s']), {
      recall: (id) => {
        asked.push(id);
        return remote.hasRoom;
      },
    });
    expect(source?.dueAt?.(entryOf(DEFERRED))).toBe(IN_TEN.dueAt?.(entryOf(DEFERRED)));
    remote.hasRoom = true;
    expect(source?.dueAt?.(entryOf(DEFERRED))).toBe(5_000);
    expect(source?.dueAt?.(entryOf({}))).toBe(IN_TEN.dueAt?.(entryOf({})));
    expect(asked).toEqual(['destination', 'destination']);
  });
});

describe('a recall of deferred deliveries', () => {
  /** A destination with a known call duration: one call was made. */
  async function known(callMs: number, answer: DeliveryResult = OK) {
    const set = setUpHanging();
    set.known.set(DESTINATION.id, DESTINATION);
    const end = async (result: DeliveryResult) => {
      await turn();
      set.time.elapsed += callMs;
      set.release.shift()?.(result);
      await turn();
    };
    const first = set.begin('first');
    await end(answer);
    await first;
    return { ...set, end, recalled: () => count(() => set.registry.recall(DESTINATION.id)) };
  }

  function count(recall: () => boolean): number {
    let times = 0;
    while (times < 10_000 && recall()) times += 1;
    return times;
  }

  it('is for as many as the destination accepts in two seconds, arriving ones included', async () => {
    const { recalled, begin, time } = await known(100);
    expect(recalled()).toBe(21);
    expect(recalled()).toBe(0);
    time.elapsed += 1_001;
    for (let n = 0; n < 15; n++) void begin(`${n}`);
    await turn();
    expect(recalled()).toBe(6);
  });

  it('is for one alone until the duration of a call is known', () => {
    const { registry, known } = setUp(() => OK);
    known.set(DESTINATION.id, DESTINATION);
    expect(count(() => registry.recall(DESTINATION.id))).toBe(1);
  });

  it('is for one while calls take longer than that, and for none while one is under way', async () => {
    const { recalled, begin } = await known(5_000);
    expect(recalled()).toBe(1);
    void begin('next');
    await turn();
    expect(recalled()).toBe(0);
  });

  it('recalls nothing while the circuit is not closed, nor when the probe is due', async () => {
    const { recalled, begin, end, time } = await known(10, DOWN);
    for (const id of ['2', '3']) {
      const failed = begin(id);
      await end(DOWN);
      await failed;
    }
    expect(recalled()).toBe(0);
    time.elapsed += 60_000;
    expect(recalled()).toBe(0);
  });

  it.each([
    ['is gone', undefined],
    ['is off', { ...DESTINATION, enabled: false }],
    ['is paused', { ...DESTINATION, paused: true }],
  ])('recalls nothing when the destination %s', async (_, destination) => {
    const { registry, known: destinations, calls } = await known(10);
    if (destination === undefined) destinations.delete(DESTINATION.id);
    else destinations.set(DESTINATION.id, destination);
    expect(registry.recall(DESTINATION.id)).toBe(false);
    expect(calls).toHaveLength(1);
  });
});
