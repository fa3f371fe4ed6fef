import { expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();
const elsewhere = await test.openWorkspace('other@example.com');

const DENIED = { status: 403, body: { error: 'permission denied' } };
const EVENT = { event: 'Sent', user_id: 'u1' };

it('a write key of one workspace sends nothing to another, with any workspace header', async () => {
  const key = await owner.writeKey();
  const site = owner.with({ token: key });
  expect((await site.call('POST', './events/track', EVENT)).status).toBe(202);
  const track = `/workspaces/${elsewhere.workspaceId}/events/track`;
  for (const header of [owner.workspaceId, elsewhere.workspaceId]) {
    const { status, body } = await site.call('POST', track, EVENT, { 'x-workspace-id': String(header) });
    expect({ status, body }).toEqual(DENIED);
  }
  const bare = await test.app.inject({
    method: 'POST',
    url: `/api/v1${track}`,
    headers: { authorization: `Bearer ${key}` },
    payload: EVENT,
  });
  expect({ status: bare.statusCode, body: bare.json() }).toEqual(DENIED);
});

it('an API key of one workspace reads and writes nothing of another', async () => {
  const server = await owner.withApiKey('admin');
  expect((await server.call('GET', './event-keys')).status).toBe(200);
  const foreign = server.with({ workspaceId: String(elsewhere.workspaceId) });
  for (const { status, body } of [
    await foreign.call('GET', './event-keys'),
    await foreign.call('POST', './event-keys', { name: 'mine', environment: 'production' }),
  ])
    expect({ status, body }).toEqual(DENIED);
});
