import { NO_LOGGER, Unavailable } from '@tributary/core';
import { openLogCatalog, startServer } from '@tributary/infra';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { openTestGateway } from '../../helpers/gateway.ts';

it('does not answer 401 to a good key while the log is away and the catalog unread', async () => {
  const gateway = await openTestGateway();
  onTestFinished(() => gateway.close());
  const owner = await gateway.openWorkspace();
  const { key } = await owner.ok<{ key: string }>('POST', './event-keys', {
    name: 'producer',
    environment: 'production',
  });

  const { log } = gateway.dependencies;
  let isBack = false;
  const there = () => {
    if (!isBack) throw new Unavailable('the log does not answer');
    return log;
  };
  const catalog = openLogCatalog({
    log: {
      append: async (...args) => there().append(...args),
      read: async (...args) => there().read(...args),
      end: async (...args) => there().end(...args),
      first: async (...args) => there().first(...args),
      positionOf: async (...args) => there().positionOf(...args),
      dropBelow: async (...args) => there().dropBelow(...args),
    },
    logger: NO_LOGGER,
  });
  onTestFinished(() => catalog.close());
  const server = await startServer(
    { host: '127.0.0.1', port: 0, trustProxy: [] },
    { ...gateway.dependencies, catalog },
    { readiness: () => ({ ready: catalog.ready, checks: {} }) },
  );
  onTestFinished(() => server.close());

  const send = () =>
    fetch(`${server.url}/api/v1/workspaces/${owner.workspaceId}/events/track`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Sent', user_id: 'u1' }),
    });
  const refused = await send();
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect((await fetch(`${server.url}/livez`)).status).toBe(200);

  isBack = true;
  const answer = await eventually(send, ({ status }) => status !== 503);
  expect(answer.status).toBe(202);
});
