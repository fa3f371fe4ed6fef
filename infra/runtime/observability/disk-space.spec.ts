import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { DiskSpace } from '../process/ballast.ts';
import { watchDiskSpace } from './disk-space.ts';
import { createMetrics } from './metrics.ts';

const EMBEDDED = {
  dataFolder: '/data',
  diskReserveBytes: 100,
  kafkaBrokers: [],
  redisUrl: undefined,
  elasticsearchUrl: undefined,
} as const;
const READY = { ready: true, checks: { catalog: 'caught up' } } as const;

async function watched(spaces: () => Promise<DiskSpace> | DiskSpace, config: object = {}) {
  const lines: [string, string][] = [];
  const note = (level: string) => (_fields: object, message: string) => lines.push([level, message]);
  const logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
  const metrics = createMetrics({ processMetrics: false });
  const watch = await watchDiskSpace(
    { ...EMBEDDED, ...config },
    { logger, metrics, read: async () => spaces(), everyMs: 1 },
  );
  onTestFinished(() => watch.close());
  return { watch, lines, metrics };
}

it('reports each worse level at once and a lasting one once a minute, and is never the reason for not being ready', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  let free = 200;
  const { watch, lines, metrics } = await watched(() => ({ free, size: 200 }));
  const pass = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms);
  };
  expect(watch.readiness(READY)).toEqual({
    ready: true,
    checks: { catalog: 'caught up', disk: '0 MiB free' },
  });
  free = 90;
  await pass(10);
  expect(watch.level()).toBe('scarce');
  await pass(59_000);
  expect(lines).toHaveLength(1);
  await pass(1_000);
  expect(lines).toHaveLength(2);
  free = 70;
  await pass(10);
  expect(watch.level()).toBe('low');
  free = 0;
  await pass(10);
  expect(watch.level()).toBe('full');
  expect(watch.readiness(READY)).toEqual({
    ready: true,
    checks: { catalog: 'caught up', disk: expect.stringContaining('reads, removals and sign-in are served') },
  });
  free = 25;
  await pass(10);
  expect(watch.level()).toBe('exhausted');
  free = 200;
  await pass(10);
  expect(watch.level()).toBe('enough');
  expect(watch.readiness({ ready: false, checks: {} }).ready).toBe(false);
  expect(
    lines.map(([level, text]) => `${level}: ${text.split(':').slice(0, 2).join(':').slice(0, 70)}`),
  ).toEqual([
    expect.stringContaining('error: the disk of the data folder is nearly full: events of o'),
    expect.stringContaining('error: the disk of the data folder is nearly full: events of o'),
    expect.stringContaining('error: the disk of the data folder is nearly full: events of o'),
    expect.stringContaining('error: the disk of the data folder is nearly full: events are'),
    'info: the disk of the data folder has space again',
  ]);
  const values = (await metrics.snapshot()) as { name: string; values: { value: number }[] }[];
  expect(Object.fromEntries(values.map(({ name, values: [value] }) => [name, value?.value]))).toEqual({
    tributary_data_folder_free_bytes: 200,
    tributary_data_folder_size_bytes: 200,
    tributary_data_folder_reserve_bytes: 100,
  });
});

it('ballast that was given up counts as used, and is made again once there is space beyond the reserve', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const MIB = 2 ** 20;
  let free = 60 * MIB;
  const { watch } = await watched(() => ({ free, size: 64 * MIB }), {
    dataFolder: folder,
    diskReserveBytes: 8 * MIB,
  });
  const bytes = () => {
    const ballast = join(folder, 'ballast');
    if (!existsSync(ballast)) return 0;
    return readdirSync(ballast).reduce((sum, name) => sum + statSync(join(ballast, name)).size, 0);
  };
  await expect.poll(bytes).toBe(2 * MIB);
  rmSync(join(folder, 'ballast'), { recursive: true });
  free = 2 * MIB; // what the ballast has left
  await expect.poll(() => watch.level()).toBe('full');
  expect(watch.isSpent()).toBe(true);
  free = 9.8 * MIB; // less than the reserve and the ballast
  await expect.poll(() => watch.level()).toBe('scarce');
  expect([watch.isSpent(), bytes()]).toEqual([false, 0]);
  free = 11 * MIB;
  await expect.poll(bytes).toBe(2 * MIB);
});

it('ballast was written on after the close: the slice under way is waited for, and no other begins', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const size = 64 * 2 ** 20;
  const { watch } = await watched(() => ({ free: size, size }), { dataFolder: folder });
  await watch.close();
  const made = () => readdirSync(join(folder, 'ballast'));
  const before = made();
  expect(before.filter((name) => name.endsWith('.new'))).toEqual([]);
  await sleep(20);
  expect(made()).toEqual(before);
});

it('a disk that cannot be asked changes nothing, and one that hangs is asked once', async () => {
  let asked = 0;
  const { watch, lines } = await watched(() => {
    asked++;
    if (asked === 1) throw new Error('no such disk');
    return new Promise<DiskSpace>(() => {});
  });
  await sleep(20);
  expect(asked).toBe(2);
  expect(lines).toEqual([['warn', 'the free space of the data folder cannot be read']]);
  expect(watch.readiness(READY).ready).toBe(true);
});

it('a process that keeps nothing in its data folder does not look at its disk', async () => {
  const engines = { kafkaBrokers: ['k'], redisUrl: 'r', elasticsearchUrl: ['e'] };
  const { watch } = await watched(() => ({ free: 0, size: 1 }), engines);
  expect(watch.readiness(READY)).toEqual(READY);
  expect(watch.level()).toBe('enough');
});
