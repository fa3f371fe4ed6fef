import { NO_LOGGER } from '@tributary/core';
import { openRedisDeduplicator } from '@tributary/infra';
import { freshPrefix } from '../helpers/engines.ts';
import { removeKeys } from '../helpers/redis.ts';
import { type BenchRow, median, perSecond } from './table.ts';

const CLAIMS = 1_000;
const CLAIM_BAR = 50_000;

export interface RedisRowOptions {
  readonly url: string;
  readonly rounds: number;
  readonly seconds: number;
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
