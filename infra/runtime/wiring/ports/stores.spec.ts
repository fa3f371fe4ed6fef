import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { type HistoryEntry, NO_LOGGER } from '@tributary/core';
import { afterEach, expect, it, onTestFinished, vi } from 'vitest';
import { readConfig } from '../../config/config.ts';
import { openGatewayLiveTail, openHistory, openStagesLiveTail } from './stores.ts';

const DAY_MS = 86_400_000;
let folder: string | undefined;

afterEach(() => {
  vi.useRealTimers();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

const entry = (id: string): HistoryEntry => ({
  kind: 'violation',
  id,
  workspaceId: 'w',
  at: 0,
  version: 1,
  facets: {},
  body: {},
});

it.each([
  ['as long as topics keep their records', {}, 8],
  ['as long as it is told', { TRIBUTARY_HISTORY_RETENTION: '30d' }, 31],
])('is kept %s', async (_, env, days) => {
  folder = await mkdtemp(join(tmpdir(), 'tributary-history-'));
  const config = readConfig({ TRIBUTARY_DATA_DIR: folder, ...env });
  vi.useFakeTimers({ toFake: ['Date'] });
  const history = await openHistory(config, NO_LOGGER);
  await history.put([entry('old')]);
  vi.setSystemTime(Date.now() + (days - 2) * DAY_MS);
  await history.put([entry('a')]);
  expect(await history.get('violation', 'w', 'old')).toBeDefined();
  vi.setSystemTime(Date.now() + 2 * DAY_MS);
  await history.put([entry('b')]);
  expect(await history.get('violation', 'w', 'old')).toBeUndefined();
  await history.close();
});

const BATCH = {
  topic: 'events.accepted',
  partition: 0,
  events: [{ workspaceId: 'w', environment: 'production', data: '{}', offset: 0 }],
} as const;

it('connects the stages of a process with its gateway', async () => {
  const { port1, port2 } = new MessageChannel();
  const config = readConfig({});
  const gateway = await openGatewayLiveTail(config, { logger: NO_LOGGER, link: port1 });
  const stages = await openStagesLiveTail(config, { logger: NO_LOGGER, link: port2 });
  onTestFinished(() => Promise.all([gateway.close(), stages.close()]).then(() => {}));
  await stages.append(BATCH);
  const follower = await gateway.follow('w', { wake() {} });
  expect(follower.take(100)).toMatchObject([{ kind: 'event', event: { data: '{}' } }]);
});

it('refuses followers and does not delay the stage, if the processes have no Redis', async () => {
  const config = readConfig({ KAFKA_BROKERS: '127.0.0.1:1' });
  const gateway = await openGatewayLiveTail(config, { logger: NO_LOGGER });
  const stages = await openStagesLiveTail(config, { logger: NO_LOGGER });
  expect(await stages.append(BATCH)).toBe(0);
  await expect(gateway.follow('w', { wake() {} })).rejects.toMatchObject({ code: 'unavailable' });
});
