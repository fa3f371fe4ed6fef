import { MessageChannel } from 'node:worker_threads';
import { NO_LOGGER } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { readConfig } from '../../config/config.ts';
import { openGatewayLiveTail, openStagesLiveTail } from './live-tail.ts';

const BATCH = {
  topic: 'events.accepted',
  partition: 0,
  events: [{ workspaceId: 'w', environment: 'production', data: '{}', offset: 0 }],
} as const;

it('leads from the stages of a process to its gateway', async () => {
  const { port1, port2 } = new MessageChannel();
  const config = readConfig({});
  const gateway = await openGatewayLiveTail(config, { logger: NO_LOGGER, link: port1 });
  const stages = await openStagesLiveTail(config, { logger: NO_LOGGER, link: port2 });
  onTestFinished(() => Promise.all([gateway.close(), stages.close()]).then(() => {}));
  await stages.append(BATCH);
  const follower = await gateway.follow('w', { wake() {} });
  expect(follower.take(100)).toMatchObject([{ kind: 'event', event: { data: '{}' } }]);
});

it('says that there is none, and holds the stage up at nothing, where processes have no Redis to meet at', async () => {
  const config = readConfig({ KAFKA_BROKERS: '127.0.0.1:1' });
  const gateway = await openGatewayLiveTail(config, { logger: NO_LOGGER });
  const stages = await openStagesLiveTail(config, { logger: NO_LOGGER });
  expect(await stages.append(BATCH)).toBe(0);
  await expect(gateway.follow('w', { wake() {} })).rejects.toMatchObject({ code: 'unavailable' });
});
