import { EVENT_TYPES, NO_LOGGER, type VolumeIncrement } from '@tributary/core';
import { openRedisDeduplicator, openRedisVolumeCounters } from '@tributary/infra';
import { Redis } from 'ioredis';
import { freshPrefix } from '../helpers/engines.ts';
import { removeKeys } from '../helpers/redis.ts';
import { type BenchRow, median, perSecond } from './table.ts';

/** Different counts in the batches of a run: a workspace's names, types and the hours of a busy day. */
const COUNTS = 2_000;
const INCREMENTS = 500;
const WORKSPACES = 4;
const HOUR_MS = 3_600_000;
const COUNT_BAR = 0.8;

const CLAIMS = 1_000;
const CLAIM_BAR = 50_000;

export interface RedisRowOptions {
  readonly url: string;
  readonly rounds: number;
  readonly seconds: number;
}

/** Increments a second through the counters, against the same increments as pipelined HINCRBY of the same client. */
export async function countRow({ url, rounds, seconds }: RedisRowOptions): Promise<BenchRow> {
  const prefix = freshPrefix();
  const counters = await openRedisVolumeCounters({ url, prefix, logger: NO_LOGGER });
  const raw = new Redis(url);
  const batches = batchesOf(increments());
  let offset = 0;
  const count = async (batch: readonly VolumeIncrement[]) => {
    const fixed = { topic: 'bench', partition: 0, increments: batch, keyUses: [] };
    await counters.apply({ ...fixed, from: offset, to: ++offset });
  };
  const hincrby = async (batch: readonly VolumeIncrement[]) => {
    const pipeline = raw.pipeline();
    for (const increment of batch) {
      pipeline.hincrby(`${prefix}raw:${increment.workspaceId}`, rawField(increment), increment.count);
    }
    await pipeline.exec();
  };
  const figures: number[] = [];
  const baselines: number[] = [];
  const ratios: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const figure = INCREMENTS * (await requestsPerSecond(batches, count, seconds));
    const baseline = INCREMENTS * (await requestsPerSecond(batches, hincrby, seconds));
    if (round === 0) continue;
    figures.push(figure);
    baselines.push(baseline);
    ratios.push(figure / baseline);
  }
  await counters.close();
  raw.disconnect();
  await removeKeys(url, prefix);
  const ratio = median(ratios);
  return {
    path: `count into Redis, batches of ${INCREMENTS}, increments`,
    figure: perSecond(median(figures)),
    baseline: `${perSecond(median(baselines))} pipelined HINCRBY`,
    ratio,
    bar: `>= ${COUNT_BAR}`,
    holds: ratio >= COUNT_BAR,
  };
}

/** Dedupe claims of new ids a second, by one process that waits for each batch. */
export async function claimRow({ url, rounds, seconds }: RedisRowOptions): Promise<BenchRow> {
  const prefix = freshPrefix();
  const deduplicator = await openRedisDeduplicator({ url, prefix, windowMs: 120_000, logger: NO_LOGGER });
  let offset = 0;
  const claim = async () => {
    const claimants = Array.from({ length: CLAIMS }, () => ({
      workspaceId: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01',
      environment: 'production' as const,
      messageId: `message-${offset}`,
      position: { topic: 'events.production', partition: 3, offset: offset++, index: 0 },
    }));
    if (!(await deduplicator.claim(claimants)).every(Boolean)) throw new Error('a fresh id was lost');
  };
  const figures: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const figure = CLAIMS * (await requestsPerSecond([undefined], claim, seconds));
    if (round > 0) figures.push(figure);
  }
  await deduplicator.close();
  await removeKeys(url, prefix);
  const figure = median(figures);
  return {
    path: `claim in Redis, batches of ${CLAIMS}`,
    figure: perSecond(figure),
    baseline: '-',
    ratio: null,
    bar: `>= ${perSecond(CLAIM_BAR)}`,
    holds: figure >= CLAIM_BAR,
  };
}

function increments(): readonly VolumeIncrement[] {
  const thisHour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  return Array.from({ length: COUNTS }, (_, n) => ({
    workspaceId: `0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a0${n % WORKSPACES}`,
    environment: 'production',
    eventType: EVENT_TYPES[n % EVENT_TYPES.length] ?? 'track',
    eventName: `Event Name ${Math.floor(n / EVENT_TYPES.length)}`,
    hour: thisHour - (n % 2) * HOUR_MS,
    count: 1 + (n % 3),
  }));
}

function batchesOf(all: readonly VolumeIncrement[]): readonly (readonly VolumeIncrement[])[] {
  return Array.from({ length: all.length / INCREMENTS }, (_, n) =>
    all.slice(n * INCREMENTS, (n + 1) * INCREMENTS),
  );
}

function rawField({ hour, eventType, eventName }: VolumeIncrement): string {
  return `${(hour / HOUR_MS) % 24}:${eventType}:${eventName}`;
}

async function requestsPerSecond<T>(
  inputs: readonly T[],
  call: (input: T) => Promise<void>,
  seconds: number,
): Promise<number> {
  const startedAt = performance.now();
  let calls = 0;
  while (performance.now() - startedAt < seconds * 1_000) {
    for (const input of inputs) await call(input);
    calls += inputs.length;
  }
  return calls / ((performance.now() - startedAt) / 1_000);
}
