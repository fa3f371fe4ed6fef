import { type Counters, Fenced, type HistoryEntry, NO_LOGGER } from '@tributary/core';
import { RedisConnection } from '@tributary/infra';
import {
  holdsCounts,
  importDocuments,
  importOffsets,
  openRedisCounters,
} from '@tributary/infra/adapters/counters/redis';
import { openSqliteCounters, openStoredCounts } from '@tributary/infra/adapters/counters/sqlite';
import { openElasticsearchHistory, openHistoryImport } from '@tributary/infra/adapters/history/elasticsearch';
import { dayOf, openSqliteHistory, openStoredHistory } from '@tributary/infra/adapters/history/sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  batch,
  increment,
  PARTITION,
  thisHour,
  WORKSPACE_ID,
} from '../../conformance/counters/suite/harness.ts';
import { eventually } from '../../helpers/client.ts';
import { engines } from '../../helpers/engines.ts';
import { isolatedEngines, never } from './isolated-engines.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The content of one store is in the other, and both decide the same from then on. */
describe.skipIf(engines() === undefined)('A store that is moved', () => {
  it('lists the history, and drops it when it would have expired', async () => {
    const { folder, prefix, elasticsearchUrl } = await isolatedEngines();
    const access = { urls: [elasticsearchUrl] };
    const retentionMs = 10 * DAY_MS;
    let now = Date.now() - 9 * DAY_MS;
    const source = openSqliteHistory({ folder, clock: () => now, retentionMs });
    const entry = (n: number, changes: Partial<HistoryEntry> = {}): HistoryEntry => ({
      kind: 'delivery',
      id: `d${n}`,
      workspaceId: `w${n % 2}`,
      at: now - n * HOUR_MS,
      version: 1,
      facets: { status: n % 3 === 0 ? 'dead' : 'retrying', destination_id: 'd' },
      body: { n, exact: JSON.rawJSON('12345678901234567890') as unknown as number },
      ...(n % 5 === 0 ? { detail: { event: { n } } } : {}),
      ...changes,
    });
    const old = Array.from({ length: 300 }, (_, n) => entry(n));
    await source.put(old);
    now = Date.now();
    const recent = Array.from({ length: 300 }, (_, n) => entry(1_000 + n, { at: now - n * 60_000 }));
    await source.put([...recent, { ...(old[4] ?? never()), version: 2, facets: { status: 'delivered' } }]);
    const queries = [
      { kind: 'delivery' as const, workspaceId: 'w0', limit: 1_000, details: true },
      { kind: 'delivery' as const, workspaceId: 'w1', limit: 1_000, facets: { status: 'dead' } },
      { kind: 'delivery' as const, workspaceId: 'w0', limit: 1_000, facets: { status: 'delivered' } },
    ];
    const hours = { kind: 'delivery' as const, workspaceId: 'w0', fromHour: 0, toHour: now };
    const expected = [
      await Promise.all(queries.map((query) => source.list(query))),
      await source.countByHour(hours),
      await source.get('delivery', 'w0', 'd4'),
    ];
    await source.close();

    const stored = openStoredHistory(folder) ?? never();
    onTestFinished(() => stored.close());
    const options = { access, prefix, retentionMs, logger: NO_LOGGER, timeoutMs: 30_000 };
    const imported = await openHistoryImport(options);
    const lastPuts = stored.lastPuts();
    expect(await imported.exists()).toBe(false);
    for (let from = 0; ; ) {
      const some = stored.after(from, 250);
      const last = some.at(-1);
      if (last === undefined) break;
      for (const [day, of] of Map.groupBy(some, ({ entry: { at } }) => dayOf(at)))
        await imported.put(
          of.map((one) => one.entry),
          lastPuts.get(day) ?? now,
        );
      from = last.number;
    }
    await imported.close();

    const history = await openElasticsearchHistory({ ...options, clock: () => now, retentionEveryMs: false });
    onTestFinished(() => history.close());
    // A list has what was put before the last refresh.
    await expect
      .poll(async () => [
        await Promise.all(queries.map((query) => history.list(query))),
        await history.countByHour(hours),
        await history.get('delivery', 'w0', 'd4'),
      ])
      .toEqual(expected);
    // Two days later the days are expired whose last put was nine days ago.
    const later = await openElasticsearchHistory({ ...options, clock: () => now + 2 * DAY_MS });
    onTestFinished(() => later.close());
    // While an index is deleted, a read may be unavailable.
    await eventually(
      () => later.get('delivery', 'w0', 'd200').catch(() => 'unavailable'),
      (found) => found === undefined,
    );
    expect(await later.get('delivery', 'w0', 'd4')).toBeDefined();
    expect(await later.get('delivery', 'w0', 'd1000')).toBeDefined();
  });

  it('has the same counts, and adds no record of them again', async () => {
    const { folder, prefix, redisUrl: url } = await isolatedEngines();
    const redis = await RedisConnection.open({ url, logger: NO_LOGGER });
    onTestFinished(() => redis.close());
    const clock = Date.now;
    const source = openSqliteCounters({ folder, clock });
    const names = Array.from({ length: 300 }, (_, n) => `Event ${n}`);
    const increments = [0, 1, 30, 26 * 60, 9 * 24 * 60].flatMap((minutesAgo) =>
      names.map((name, n) =>
        increment({ name, minute: thisHour() - minutesAgo * 60_000, count: n + 1, samples: [`m${n}`] }),
      ),
    );
    await source.apply(batch(0, increments));
    const keyUses = [{ keyId: 'write', at: thisHour() }];
    const delivered = increment({ measures: 'delivered_first', latencies: { 40: 7 } });
    await source.apply(batch(1, [delivered], { keyUses }));
    await source.touch({ keyId: 'api', at: thisHour() + 1 });
    const run = { workspaceId: WORKSPACE_ID, transformationId: 't', hour: thisHour() };
    for (let n = 0; n < 2; n++) await source.addRuns([{ ...run, counts: { runs: 7, errors: 1, ms3: 7 } }]);
    const to = thisHour() + HOUR_MS;
    const startOfDay = to - (to % DAY_MS);
    const query = { workspaceId: WORKSPACE_ID, filter: {}, to } as const;
    const hours = { workspaceId: WORKSPACE_ID, fromHour: thisHour() - 48 * HOUR_MS, toHour: thisHour() };
    const questions = (counters: Counters) =>
      Promise.all([
        counters.funnel({ ...query, interval: 'hour', from: to - 48 * HOUR_MS, groupBy: [] }),
        counters.funnel({
          ...query,
          interval: 'day',
          from: startOfDay - 9 * DAY_MS,
          to: startOfDay,
          groupBy: ['name'],
        }),
        counters.funnel({ ...query, interval: 'minute', from: to - HOUR_MS, groupBy: ['key'] }),
        counters.samples({ ...query, from: to - HOUR_MS, measure: 'accepted', limit: 10 }),
        counters.applied(PARTITION),
        counters.volume(hours),
        counters.lastUsed(['write', 'api', 'none']),
        counters.runs({ ...hours, transformationId: 't' }),
      ]);
    const expected = await questions(source);
    await source.close();

    const stored = openStoredCounts(folder) ?? never();
    onTestFinished(() => stored.close());
    const documents = [...stored.documents(Date.now())];
    expect(await holdsCounts(redis, prefix)).toBe(false);
    for (const _ of ['first', 'again']) {
      await importDocuments(redis, prefix, documents);
      await importOffsets(redis, prefix, stored.applied());
    }
    expect(await holdsCounts(redis, prefix)).toBe(true);

    const target = await openRedisCounters({ url, prefix, clock, logger: NO_LOGGER });
    onTestFinished(() => target.close());
    expect(await questions(target)).toEqual(expected);
    expect(expected[0].length).toBeGreaterThan(1);
    await expect(target.apply(batch(1, increments))).rejects.toThrow(Fenced);
    await target.apply(batch(2, [increment({ name: 'Event 7' })]));
    await target.addRuns([{ ...run, counts: { runs: 1 } }]);
    const [ofHour] = await target.runs({ ...hours, transformationId: 't' });
    expect(ofHour?.counts.runs).toBe(15);
    const [after] = await target.funnel({ ...query, interval: 'hour', from: thisHour(), groupBy: [] });
    expect(after?.counts.received).toBe((expected[0].at(-1)?.counts.received ?? 0) + 1);
  });
});
