import { MessageChannel } from 'node:worker_threads';
import { NO_LOGGER } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { readConfig } from '../../config/config.ts';
import { openGatewayLiveTail, openStagesLiveTail } from './shared-state.ts';

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
