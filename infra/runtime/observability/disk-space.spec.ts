import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { type DiskSpace, levelOf, reserveOf, type SpaceLevel, watchDiskSpace } from './disk-space.ts';
import { createMetrics } from './metrics.ts';

const GIB = 2 ** 30;
const EMBEDDED = {
  dataFolder: '/data',
  diskReserveBytes: 100,
  kafkaBrokers: [],
  redisUrl: undefined,
  elasticsearchUrl: undefined,
} as const;
const READY = { ready: true, checks: { catalog: 'caught up' } } as const;

async function watched(spaces: () => Promise<DiskSpace> | DiskSpace, config: Partial<typeof EMBEDDED> = {}) {
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

it.each([
  [undefined, 100 * GIB, GIB],
  [undefined, 10 * GIB, GIB / 2],
  [7, GIB, 7],
  [0, GIB, 0],
])(
  'the reserve is as configured, else a twentieth of the disk and 1 GiB at most: %s of %s',
  (configured, size, reserve) => {
    expect(reserveOf(configured, size)).toBe(reserve);
  },
);

it('a level ends a tenth of the reserve above where it began, so that levels do not alternate', () => {
  let level: SpaceLevel = 'enough';
  const levels = [101, 99, 105, 109, 110, 99, 50, 49, 55, 59, 60, 100, 110].map((free) => {
    level = levelOf(free, 100, level);
    return level;
  });
  expect(levels.join(' ')).toBe(
    'enough low low low enough low low exhausted exhausted exhausted low low enough',
  );
});

it('nothing is refused without a reserve', () => {
  expect(levelOf(0, 0, 'enough')).toBe('enough');
});

it('reports each change at once and a lasting one once a minute, and is ready again by itself', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  let free = 1_000;
  const { watch, lines, metrics } = await watched(() => ({ free, size: 2_000 }));
  const pass = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms);
  };
  expect(watch.readiness(READY)).toEqual({
    ready: true,
    checks: { catalog: 'caught up', disk: '0 MiB free' },
  });
  free = 90;
  await pass(10);
  expect(watch.readiness(READY).ready).toBe(false);
  expect(watch.isExhausted).toBe(false);
  await pass(59_000);
  expect(lines).toHaveLength(1);
  await pass(1_000);
  expect(lines).toHaveLength(2);
  free = 10;
  await pass(10);
  expect(watch.isExhausted).toBe(true);
  free = 1_000;
  await pass(10);
  expect(watch.readiness(READY).ready).toBe(true);
  expect(watch.readiness({ ready: false, checks: {} }).ready).toBe(false);
  expect(
    lines.map(([level, text]) => `${level}: ${text.split(':').slice(0, 2).join(':').slice(0, 70)}`),
  ).toEqual([
    expect.stringContaining('error: the disk of the data folder is nearly full: this process'),
    expect.stringContaining('error: the disk of the data folder is nearly full: this process'),
    expect.stringContaining('error: the disk of the data folder is nearly full: events are'),
    'info: the disk of the data folder has space again',
  ]);
  const values = (await metrics.snapshot()) as { name: string; values: { value: number }[] }[];
  expect(Object.fromEntries(values.map(({ name, values: [value] }) => [name, value?.value]))).toEqual({
    tributary_data_folder_free_bytes: 1_000,
    tributary_data_folder_size_bytes: 2_000,
    tributary_data_folder_reserve_bytes: 100,
  });
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
  const { watch } = await watched(
    () => ({ free: 0, size: 1 }),
    engines as unknown as Partial<typeof EMBEDDED>,
  );
  expect(watch.readiness(READY)).toEqual(READY);
  expect(watch.isExhausted).toBe(false);
});
