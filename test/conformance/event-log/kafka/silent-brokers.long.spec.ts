import { setTimeout } from 'node:timers/promises';
import {
  type EventLog,
  NO_LOGGER,
  NO_METRICS,
  type Position,
  partitionOf,
  Unavailable,
} from '@tributary/core';
import { openKafkaEventLog } from '@tributary/infra';
import { afterEach, describe, expect, it } from 'vitest';
import { SOURCE } from '../suite/harness.ts';
import { topicsOf } from './installation/installation.ts';
import { type PlayedCluster, playCluster } from './installation/played-brokers.ts';

const APPEND_TIMEOUT_MS = 1_000;

/**
 * The longest time an append to an answering broker may take while another broker is silent, on a shared
 * machine, ms.
 */
const UNDISTURBED_MS = 500;

describe('Kafka is silent', () => {
  const opened: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of opened.splice(0).reverse()) await one.close();
  });

  async function setUp(leaders: readonly number[]): Promise<{ cluster: PlayedCluster; log: EventLog }> {
    const cluster = await playCluster(leaders);
    opened.push(cluster);
    const log = await openKafkaEventLog({
      connection: {
        brokers: cluster.brokers.slice(0, 1).map(({ port }) => `127.0.0.1:${port}`),
        clientId: 'spec',
      },
      prefix: 'spec.',
      topics: topicsOf(leaders.length),
      metrics: NO_METRICS,
      logger: NO_LOGGER,
      appendTimeoutMs: APPEND_TIMEOUT_MS,
    });
    opened.push(log);
    return { cluster, log };
  }

  it('on a connection that leads nowhere: one call hears of it, the next goes over another', async () => {
    const { cluster, log } = await setUp([0]);
    const [broker] = cluster.brokers;
    await append(log, 0, 1);
    const before = broker?.connections;

    broker?.dropSilently();
    await expect(append(log, 0, 1)).rejects.toThrow(Unavailable);
    expect(await append(log, 0, 1)).toHaveLength(1);
    expect(broker?.connections).toBe((before ?? 0) + 1);
  });

  it.each([
    ['when it was answering before', true],
    ['also when nobody reached it yet', false],
  ])('at one broker: appends to partitions led by others are not delayed, %s', async (_when, warm) => {
    const { cluster, log } = await setUp([0, 1]);
    if (warm) await Promise.all([append(log, 0, 2), append(log, 1, 2)]);
    else await append(log, 0, 2);
    const [, broken] = cluster.brokers;
    if (broken) broken.silent = true;

    const silent: Promise<unknown>[] = [];
    const took: number[] = [];
    for (let i = 0; i < 60; i++) {
      silent.push(append(log, 1, 2).catch((thrown: unknown) => thrown));
      const since = performance.now();
      await append(log, 0, 2);
      took.push(performance.now() - since);
      await setTimeout(50);
    }
    expect(Math.max(...took)).toBeLessThan(UNDISTURBED_MS);
    for (const outcome of await Promise.all(silent)) expect(outcome).toBeInstanceOf(Unavailable);

    if (broken) broken.silent = false;
    await expect.poll(() => append(log, 1, 2).catch(() => [])).toHaveLength(1);
  });

  it('a leader that moves keeps the order of the calls', async () => {
    const { cluster, log } = await setUp([0, 1]);
    const calls: Promise<number | undefined>[] = [];
    for (let i = 0; i < 300; i++) {
      if (i % 50 === 49) cluster.leaders[0] = 1 - (cluster.leaders[0] ?? 0);
      for (let j = 0; j < 10; j++) {
        calls.push(
          append(log, 0, 2).then(
            ([position]) => position?.offset,
            () => undefined,
          ),
        );
      }
      await setTimeout(2);
    }
    const confirmed = (await Promise.all(calls)).filter((offset) => offset !== undefined);
    expect(confirmed.length).toBeGreaterThan(1_000);
    expect(confirmed).toEqual(confirmed.toSorted((a, b) => a - b));
  });
});

/** One entry to the partition. */
function append(log: EventLog, partition: number, partitions: number): Promise<readonly Position[]> {
  let key = 0;
  while (partitionOf(`${key}`, partitions) !== partition) key++;
  return log.append(SOURCE, [{ key: `${key}`, value: '{}', headers: {} }]);
}
