import { NO_LOGGER } from '@tributary/core';
import { Unavailable } from '@tributary/core/primitives';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { DiskSpace } from '../process/ballast.ts';
import { watchBrokerDisks } from './disk-space.ts';
import { createMetrics } from './metrics.ts';

const READY = { ready: true, checks: { catalog: 'caught up' } } as const;

async function watched(dirs: (broker: number) => readonly DiskSpace[]) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const warnings: string[] = [];
  const logger = { ...NO_LOGGER, warn: (fields: object) => warnings.push(JSON.stringify(fields)) };
  const metrics = createMetrics({ processMetrics: false });
  const brokers = {
    nodeIds: async () => [1, 2],
    logDirectories: async (id: number) => dirs(id),
    close: async () => {},
  };
  const watch = watchBrokerDisks(brokers, { reserveBytes: 100, logger, metrics, everyMs: 1_000 });
  onTestFinished(() => watch.close());
  const pass = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms);
  };
  await pass(0);
  return { watch, warnings, metrics, pass };
}

it('takes the level of the fullest directory of any broker', async () => {
  let free = 500;
  const { watch, metrics, pass } = await watched((broker) =>
    broker === 1
      ? [{ free: 900, size: 1_000 }]
      : [
          { free: 800, size: 1_000 },
          { free, size: 1_000 },
        ],
  );
  expect(watch.level()).toBe('enough');
  expect(watch.readiness(READY)).toEqual(READY);
  free = 15;
  await pass(1_000);
  expect(watch.level()).toBe('exhausted');
  expect(watch.readiness(READY)).toEqual({
    ready: true,
    checks: { catalog: 'caught up', 'broker disks': expect.stringContaining('503') },
  });
  const values = (await metrics.snapshot()) as {
    name: string;
    values: { value: number; labels: object }[];
  }[];
  expect(values.find(({ name }) => name === 'tributary_broker_disk_free_bytes')?.values).toEqual([
    { value: 900, labels: { broker: '1' } },
    { value: 15, labels: { broker: '2' } },
  ]);
  free = 120;
  await pass(1_000);
  expect(watch.level()).toBe('enough');
});

it('warns once of brokers that do not tell their space, and believes the last known one for a minute', async () => {
  let isRefused = false;
  const { watch, warnings, metrics, pass } = await watched(() => {
    if (isRefused) throw new Unavailable('Kafka: CLUSTER_AUTHORIZATION_FAILED');
    return [{ free: 9, size: 1_000 }];
  });
  expect(watch.level()).toBe('full');
  isRefused = true;
  await pass(50_000);
  expect(watch.level()).toBe('full');
  await pass(20_000);
  expect(watch.level()).toBe('enough');
  expect(warnings).toEqual([expect.stringContaining('CLUSTER_AUTHORIZATION_FAILED')]);
  expect(JSON.stringify(await metrics.snapshot())).not.toContain('"broker":"1"');
});

it('counted a directory whose size the broker does not know as full: it is not watched, which is said once', async () => {
  const { watch, warnings, pass } = await watched((broker) =>
    broker === 1
      ? [{ free: 900, size: 1_000 }]
      : [
          { free: -1, size: -1 },
          { free: 15, size: 1_000 },
        ],
  );
  expect(watch.level()).toBe('exhausted');
  await pass(5_000);
  expect(warnings).toEqual([JSON.stringify({ error: 'broker 2: it does not tell the size of a directory' })]);
});

it('a disk of a broker without partitions of this installation refused its events: it counts for nothing', async () => {
  let ours: readonly DiskSpace[] = [{ free: 9, size: 1_000 }];
  const { watch, pass } = await watched((broker) => (broker === 1 ? [{ free: 900, size: 1_000 }] : ours));
  expect(watch.level()).toBe('full');
  // Its partitions were moved to another broker.
  ours = [];
  await pass(1_000);
  expect(watch.level()).toBe('enough');
});
