import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** One command starts everything and prints all that the first event needs. */
describe('The first event', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  it('prints a workspace, a write key and an ID token that can be used at once', async () => {
    const workspaces = await tributary.owner.get<readonly object[]>('/workspaces');
    expect(workspaces).toMatchObject([
      { id: tributary.workspaceId, role: 'admin', status: 'active', region: 'eu' },
    ]);
    const { status, body } = await tributary.producer.call('POST', './events/track', {
      event: 'Signed Up',
      user_id: 'ada',
    });
    expect(status).toBe(202);
    expect(body).toEqual({ message_id: expect.stringMatching(/^[0-9a-f-]{36}$/), status: 'received' });
  });

  it('answers liveness, readiness and metrics', async () => {
    const ask = (path: string) => fetch(tributary.url + path);
    expect((await ask('/livez')).status).toBe(200);
    expect(await (await ask('/readyz')).json()).toEqual({ status: 'ok' });
    // Metrics and health are for operators: on a separate port.
    expect((await ask('/metrics')).status).toBe(404);
    expect(await (await fetch(`${tributary.adminUrl}/readyz`)).json()).toMatchObject({
      status: 'ready',
      checks: { catalog: 'caught up' },
    });
    await eventually(
      () => tributary.metrics(),
      (text) => text.includes('tributary_events_received_total') && text.includes('stage="validate"'),
    );
  });

  it('counts the event', async () => {
    const volume = await eventually(
      () => tributary.owner.get<readonly object[]>('./event-volume'),
      (records) => records.length > 0,
    );
    expect(volume).toMatchObject([{ event_type: 'track', event_name: 'Signed Up', event_count: 1 }]);
  });

  it('keeps accounts, keys, tokens and counts through a restart', async () => {
    expect(await tributary.stop()).toBe(0);
    const { idToken, writeKey, workspaceId, folder } = tributary;
    tributary = await startTributary({ folder });
    expect(tributary.writeKey).toBe(writeKey);
    const returning = tributary.owner.with({ token: idToken });
    expect(await returning.get('/workspaces')).toMatchObject([{ id: workspaceId }]);
    expect(await returning.get('./event-volume')).toMatchObject([
      { event_name: 'Signed Up', event_count: 1 },
    ]);
    expect((await tributary.producer.call('POST', './events/page', { user_id: 'ada' })).status).toBe(202);
  });
});
