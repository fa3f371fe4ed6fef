import { countedEvent, countRecords, Fenced, Tally, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, setUp } from '../harness.ts';

/** Records of one event each. */
function records(...offsets: readonly number[]) {
  return offsets.map((offset) => {
    const counted = countedEvent(event('m'), 'k');
    const [record] = countRecords([
      Tally.of([{ event: counted, rule: '', destination: '', measures: 'received+accepted' }]),
    ]);
    return entryOf(TOPIC.funnelCounts, offset, record?.value ?? '');
  });
}

const APPLIED = `${TOPIC.funnelCounts}/0`;

describe('funnel', () => {
  it('continues from the applied position', async () => {
    const { run, counters } = setUp();
    await run('funnel', records(0, 1, 2));
    await run('funnel', records(3));
    expect(counters.batches).toMatchObject([
      { from: 0, to: 3, increments: [{ count: 3 }], keyUses: [{ keyId: 'k' }] },
      { from: 3, to: 4, increments: [{ count: 1 }] },
    ]);
  });

  it('counts the entries of a replayed batch that were not applied', async () => {
    const { run, counters } = setUp();
    counters.offsets.set(APPLIED, 2);
    await run('funnel', records(0, 1, 2, 3));
    await run('funnel', records(2, 3));
    expect(counters.batches).toMatchObject([{ from: 2, to: 4, increments: [{ count: 2 }] }]);
  });

  it('rewinds when the counters lost entries', async () => {
    const { run, counters } = setUp();
    await run('funnel', records(0, 1, 2));
    counters.offsets.set(APPLIED, 1);
    await expect(run('funnel', records(3))).rejects.toMatchObject({ code: 'rewind', offset: 1 });
    await run('funnel', records(1, 2, 3));
    expect(counters.batches.at(-1)).toMatchObject({ from: 1, to: 4, increments: [{ count: 3 }] });
  });

  it('rewound for ever over a gap in the offsets, which control records leave', async () => {
    const { run, counters } = setUp();
    const first = new AbortController();
    await expect(run('funnel', records(2, 3), first.signal)).rejects.toMatchObject({
      code: 'rewind',
      offset: 0,
    });
    first.abort();
    await run('funnel', records(2, 3));
    expect(counters.batches).toMatchObject([{ from: 0, to: 4, increments: [{ count: 2 }] }]);
  });

  it('stopped counting for ever when the log was wiped and the counters stayed', async () => {
    const { run, counters } = setUp();
    counters.offsets.set(APPLIED, 500);
    const handed = (...offsets: readonly number[]) =>
      run('funnel', records(...offsets), undefined, async () => 4);
    await handed(0, 1);
    await handed(2, 3);
    expect(counters.batches).toMatchObject([
      { from: 500, to: 2, increments: [{ count: 2 }] },
      { from: 2, to: 4, increments: [{ count: 2 }] },
    ]);
  });

  it('notices while at work that the log was wiped', async () => {
    const { run, counters } = setUp();
    await run('funnel', records(0, 1, 2));
    await run('funnel', records(0, 1), undefined, async () => 2);
    await run('funnel', records(0, 1), undefined, async () => 2);
    expect(counters.batches).toMatchObject([
      { from: 0, to: 3 },
      { from: 3, to: 2, increments: [{ count: 2 }] },
    ]);
  });

  it('counted twice what another process had counted since the end was asked for', async () => {
    const { run, counters } = setUp();
    let end = 2;
    const asked = counters.applied.bind(counters);
    counters.applied = async (partition) => {
      // Another owner of the partition was faster.
      end = 5;
      counters.offsets.set(APPLIED, 5);
      return asked(partition);
    };
    await run('funnel', records(0, 1), undefined, async () => end);
    expect(counters.batches).toEqual([]);
  });

  it('left out what another owner of the partition had counted and a failover lost', async () => {
    const { run } = setUp();
    const owned = new AbortController();
    await run('funnel', records(0), owned.signal);
    owned.abort();
    await expect(run('funnel', records(5))).rejects.toMatchObject({ code: 'rewind', offset: 1 });
  });

  it('asks again when it does not know whether a batch was applied', async () => {
    const { run, counters } = setUp();
    const apply = counters.apply.bind(counters);
    counters.apply = async (batch) => {
      await apply(batch);
      counters.apply = apply;
      throw new Fenced('the answer was lost');
    };
    await expect(run('funnel', records(0, 1))).rejects.toThrow('lost');
    await run('funnel', records(0, 1, 2));
    expect(counters.batches).toMatchObject([
      { from: 0, to: 2 },
      { from: 2, to: 3, increments: [{ count: 1 }] },
    ]);
  });
});
