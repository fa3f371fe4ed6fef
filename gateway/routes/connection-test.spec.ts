import { type Connector, type Destination, NO_LOGGER } from '@tributary/core';
import { expect, it } from 'vitest';
import type { GatewayDependencies } from '../dependencies.ts';
import { DestinationTests, TrialTurns } from './connection-test.ts';

it('a connection test that fails by a fault of ours is logged without settings, and answered', async () => {
  const connector: Connector = {
    batchLimits: () => ({ events: 1 }),
    deliver: async () => [],
    test: () => Promise.reject(new TypeError('our mistake')),
    close: async () => {},
  };
  const logged: object[] = [];
  const destination = {
    id: 'd1',
    workspace_id: 'w1',
    type: 'broken',
    settings: {},
  } as unknown as Destination;
  const tests = new DestinationTests(
    {
      connectors: { connector: () => connector } as unknown as GatewayDependencies['connectors'],
      unseal: () => ({ id: 'd1', workspaceId: 'w1', version: 1, settings: { secret: 'hidden' } }),
      logger: { ...NO_LOGGER, error: (about) => logged.push(about) },
    },
    new TrialTurns(),
  );
  const { signal } = new AbortController();
  expect(await tests.test(destination, signal)).toMatchObject({ ok: false, reason: 'unexpected failure' });
  expect(logged).toEqual([{ destination: 'd1', error: 'our mistake' }]);
});
