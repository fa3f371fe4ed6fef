import { type CanonicalEvent, TOPIC } from '@tributary/core';
import { RecentEvents, type RecentEventsQuery, SCAN_BUDGET } from '@tributary/gateway';
import { beforeEach, describe, expect, it } from 'vitest';
import { putJudged, trackEvent } from '../../helpers/judged-events.ts';
import { suiteGateway } from '../suite-gateway.ts';

const STAYS = new AbortController().signal;

const test = await suiteGateway();
let workspaceId: string;
beforeEach(() => {
  workspaceId = crypto.randomUUID();
});

const log = () => test.dependencies.log;
const put = (...args: Parameters<typeof putJudged> extends [unknown, ...infer Rest] ? Rest : never) =>
  putJudged(log(), ...args);

async function scan(changes: Partial<RecentEventsQuery> = {}, budget = {}) {
  const seen: CanonicalEvent[] = [];
  const recent = new RecentEvents(test.dependencies, { ...SCAN_BUDGET, ...budget });
  const query: RecentEventsQuery = {
    workspaceId,
    type: 'track',
    since: Date.now() - 3_600_000,
    limit: 2_000,
    isWanted: () => true,
    ...changes,
  };
  const coverage = await recent.scan(query, (event) => void seen.push(event), STAYS);
  return { coverage, seen, ids: seen.map(({ message_id }) => message_id).sort() };
}

/** One event for each person, so that they are in every partition. */
const many = (count: number, fields: Partial<CanonicalEvent> = {}) =>
  Array.from({ length: count }, (_, n) =>
    trackEvent(workspaceId, { message_id: `m${String(n).padStart(5, '0')}`, user_id: `u${n}`, ...fields }),
  );

describe('recent events', () => {
  it('are those of one workspace, type, environment and time, accepted and rejected, each once', async () => {
    const [accepted, rejected] = [many(700), many(300, { event: 'Bad' })].map((events, of) =>
      events.map((event) => ({ ...event, message_id: `${of}-${event.message_id}` })),
    );
    await put(accepted ?? []);
    await put(rejected ?? [], TOPIC.rejected);
    await put([
      trackEvent('another workspace'),
      trackEvent(workspaceId, { type: 'page', message_id: 'page' }),
      trackEvent(workspaceId, { environment: 'development', message_id: 'dev' }),
      trackEvent(workspaceId, { received_at: '2026-01-01T00:00:00.000Z', message_id: 'old' }),
    ]);
    const wanted = [...(accepted ?? []), ...(rejected ?? [])].map(({ message_id }) => message_id).sort();
    const { ids, coverage, seen } = await scan({ environment: 'production' });
    expect(ids).toEqual(wanted);
    const times = seen.map(({ received_at }) => received_at).sort();
    expect(coverage).toMatchObject({
      events: 1_000,
      oldest: times[0],
      newest: times.at(-1),
      stoppedBy: null,
    });
    expect((await scan()).ids).toEqual([...wanted, 'dev'].sort());
    expect((await scan({ isWanted: ({ event }) => event === 'Bad' })).ids).toHaveLength(300);
  });

  it('begin with the last ones, and end with as many as were asked for', async () => {
    await put(many(4_000));
    const { ids, coverage } = await scan({ limit: 100 });
    expect(ids).toHaveLength(100);
    expect(Number(ids[0]?.slice(1))).toBeGreaterThan(1_000);
    expect(coverage.stoppedBy).toBe('events');
  });

  it('missed an event that had just come: the newest of every partition are read before a scan ends', async () => {
    await put(many(3_000));
    const last = ['ada', 'grace', 'joan', 'mary', 'rosa'].map((user_id) =>
      trackEvent(workspaceId, { message_id: `last-${user_id}`, user_id }),
    );
    await put(last);
    const { ids, coverage } = await scan({ limit: 7, isNewest: true });
    expect(ids).toEqual(expect.arrayContaining(last.map(({ message_id }) => message_id)));
    expect(ids.length).toBeLessThan(150);
    expect(coverage.stoppedBy).toBe('events');
  });

  it.each([
    [{ maxRecords: 50 }, 'records'],
    [{ maxBytes: 10_000 }, 'bytes'],
    [{ maxMs: 0 }, 'time'],
  ])('are not looked for past %j', async (budget, stoppedBy) => {
    await put(many(500));
    const { coverage, seen } = await scan({}, budget);
    expect(coverage.stoppedBy).toBe(stoppedBy);
    expect(seen.length).toBeLessThan(100);
  });

  it('are looked for without reading entries from before the time asked for', async () => {
    await put(many(2_000));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const since = Date.now();
    await put(many(3));
    const { coverage } = await scan({ since });
    expect(coverage).toMatchObject({ events: 3, stoppedBy: null });
    expect(coverage.records).toBeLessThan(100);
  });

  it('of a thousand others are found in bounded time, and the thread is given back meanwhile', async () => {
    await put(Array.from({ length: 5_000 }, (_, n) => trackEvent('others', { user_id: `u${n}` })));
    let longest = 0;
    // Processor time of the thread: other processes of the machine lengthen no turn.
    let last = process.threadCpuUsage();
    const ticking = setInterval(() => {
      const { user, system } = process.threadCpuUsage(last);
      longest = Math.max(longest, (user + system) / 1_000);
      last = process.threadCpuUsage();
    }, 1);
    const { coverage } = await scan({
      isWanted: () => {
        throw new Error('none of them');
      },
    });
    clearInterval(ticking);
    expect(coverage).toMatchObject({ events: 0, stoppedBy: null });
    expect(longest).toBeLessThan(250);
  });

  it('are looked for by two at a time: others wait, and one workspace does not keep the rest out', async () => {
    await put(many(300));
    const recent = new RecentEvents(test.dependencies);
    const ended: string[] = [];
    const scanOf = (who: string) =>
      recent
        .scan(
          { workspaceId: who, type: 'track', since: 0, limit: 1e6, isWanted: () => true },
          () => {},
          STAYS,
        )
        .then(() => ended.push(who));
    const scans = await Promise.allSettled(
      [...Array.from({ length: 7 }, () => workspaceId), 'another'].map(scanOf),
    );
    expect(ended).toHaveLength(7);
    // With two in progress and four waiting there is no room for a seventh.
    expect(scans[6]).toMatchObject({ reason: { status: 429, retryAfterSeconds: 3 } });
    expect(ended.indexOf('another')).toBeLessThan(4);
  });
});

it('are answered as samples, newest first, narrowed and bounded', async () => {
  const owner = await test.openWorkspace();
  workspaceId = String(owner.workspaceId);
  const at = (n: number) => new Date(Date.now() - 60_000 + n * 1_000).toISOString();
  await put(many(30).map((event, n) => ({ ...event, received_at: at(n) })));
  await put([trackEvent(workspaceId, { event: 'Bad', message_id: 'bad' })], TOPIC.rejected);
  await put([trackEvent('another workspace')]);
  interface Samples {
    readonly events: readonly CanonicalEvent[];
    readonly coverage: { readonly complete: boolean };
  }
  const samples = async (query = '') => owner.ok<Samples>('GET', `./recent-events${query}`);
  const all = await samples('?limit=100');
  expect([all.events.length, all.coverage.complete]).toEqual([31, true]);
  const times = all.events.map(({ received_at }) => received_at);
  expect(times).toEqual(times.toSorted().reverse());
  expect((await samples()).events).toHaveLength(20);
  expect((await samples('?outcome=rejected')).events).toMatchObject([{ message_id: 'bad', event: 'Bad' }]);
  expect((await samples('?event_name=Paid&event_type=track&limit=3')).events).toHaveLength(3);
  expect((await samples('?environment=development')).events).toEqual([]);
});
