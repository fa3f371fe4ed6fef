import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Counters, type FunnelIncrement, type FunnelQuery, NO_LOGGER } from '@tributary/core';
import { openRedisCounters, openSqliteCounters } from '@tributary/infra';
import { freshPrefix } from '../helpers/engines.ts';
import { removeKeys } from '../helpers/redis.ts';
import { type BenchRow, median } from './table.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAYS = 30;
const NAMES = 10_000;
/** The names that a rule takes. */
const RULE_NAMES = 1_500;
const QUERY_BAR_MS = 300;
const WORKSPACE_ID = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01';

/** Queries over thirty days of a workspace that sends ten thousand names, on SQLite. */
export async function sqliteFunnelRow(options: { readonly rounds: number }): Promise<BenchRow> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-funnel-'));
  const store = openSqliteCounters({ folder, clock: Date.now });
  try {
    return await queryRow('SQLite', store, options);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The same on Redis. */
export async function redisFunnelRow({
  url,
  rounds,
}: {
  readonly url: string;
  readonly rounds: number;
}): Promise<BenchRow> {
  const prefix = freshPrefix();
  const store = await openRedisCounters({ url, prefix, clock: Date.now, logger: NO_LOGGER });
  try {
    return await queryRow('Redis', store, { rounds });
  } finally {
    await store.close();
    await removeKeys(url, prefix);
  }
}

async function queryRow(
  engine: string,
  store: Counters,
  { rounds }: { readonly rounds: number },
): Promise<BenchRow> {
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const filledAt = performance.now();
  const increments = await fill(store, today);
  const filledMs = performance.now() - filledAt;
  const range = { workspaceId: WORKSPACE_ID, from: today - (DAYS - 1) * DAY_MS, to: today + DAY_MS };
  const queries: readonly (readonly [string, FunnelQuery])[] = [
    ['by days', { ...range, interval: 'day', filter: {}, groupBy: [] }],
    ['by hours', { ...range, interval: 'hour', filter: {}, groupBy: ['rule'] }],
    ['by name', { ...range, interval: 'day', filter: {}, groupBy: ['type', 'name'], summed: true }],
    ['a name by hours', { ...range, interval: 'hour', filter: { name: 'Event 7' }, groupBy: [] }],
  ];
  const medians: { readonly what: string; readonly ms: number }[] = [];
  for (const [what, query] of queries) {
    const times: number[] = [];
    for (let round = 0; round <= rounds; round++) {
      const startedAt = performance.now();
      if ((await store.funnel(query)).length === 0) throw new Error(`nothing was counted ${what}`);
      if (round > 0) times.push(performance.now() - startedAt);
    }
    medians.push({ what, ms: median(times) });
  }
  const slowest = Math.max(...medians.map(({ ms }) => ms));
  return {
    path: `funnel of 30 days and 10,000 names on ${engine}, the slowest query`,
    figure: `${slowest.toFixed()} ms`,
    baseline: '-',
    ratio: null,
    bar: `< ${QUERY_BAR_MS} ms`,
    holds: slowest < QUERY_BAR_MS,
    note: `${medians.map(({ what, ms }) => `${what} ${ms.toFixed()} ms`).join(', ')}; counting ${((filledMs * 1_000) / increments).toFixed(1)} us a cell`,
  };
}

/** Each day all names in one hour, and a few of them in each other; before the rules, and some of them at a rule. */
async function fill(store: Counters, today: number): Promise<number> {
  const now = Date.now();
  let offset = await store.applied({ topic: 'bench', partition: 0 });
  let applied = 0;
  for (let hour = today - (DAYS - 1) * DAY_MS; hour <= now; hour += HOUR_MS) {
    const names = hour % DAY_MS === 0 ? NAMES : 5;
    for (let from = 0; from < names; from += 2_000) {
      const increments = Array.from({ length: Math.min(2_000, names - from) }, (_, n) =>
        incrementsOf(from + n, hour),
      ).flat();
      await store.apply({ topic: 'bench', partition: 0, from: offset, to: ++offset, increments });
      applied += increments.length;
    }
  }
  return applied;
}

function incrementsOf(n: number, minute: number): readonly FunnelIncrement[] {
  const cell = {
    workspaceId: WORKSPACE_ID,
    environment: 'production',
    source: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02',
    key: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a03',
    type: 'track',
    name: `Event ${n}`,
    minute,
    count: 3,
    samples: ['0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a04'],
  } as const;
  const rule = {
    rule: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a05',
    destination: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a06',
  };
  const before = { ...cell, rule: '', destination: '', measures: 'received+accepted' };
  if (n >= RULE_NAMES) return [before];
  return [
    before,
    { ...cell, ...rule, measures: 'matched+passed+created' },
    { ...cell, ...rule, measures: 'delivered_first', latencies: { 60: 1, 61: 1, 70: 1 } },
  ];
}
