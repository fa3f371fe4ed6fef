import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface Delivery {
  readonly id: string;
  readonly status: string;
  readonly reason: string | null;
  readonly message_id: string;
}

/** Dead-lettered deliveries can be found, redriven or discarded; deliveries to a paused destination wait. */
describe('Dead deliveries, and destinations that are paused', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  let ruleId: string;
  beforeAll(async () => {
    tributary = await startTributary({ env: { TRIBUTARY_RETRY_SCHEDULE: '300ms,600ms' } });
    webhook = await startWebhook();
    destinationId = await make('destinations', destination());
    ruleId = await make('event-forwarding-rules', { name: 'all', destination_id: destinationId });
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const destination = (fields: object = {}) => ({
    name: 'hook',
    type: 'webhook',
    settings: { url: webhook.url },
    ...fields,
  });
  const make = async (resource: string, body: object) =>
    (await tributary.owner.post<{ id: string }>(`./${resource}`, body)).id;
  const change = (fields: object) =>
    tributary.owner.put(`./destinations/${destinationId}`, destination(fields));
  const send = async (event: string) =>
    (await tributary.producer.post<{ message_id: string }>('./events/track', { event, user_id: 'u' }))
      .message_id;
  const list = (query: string) => tributary.owner.get<readonly Delivery[]>(`./deliveries?${query}`);
  const listed = (query: string, count: number) =>
    eventually(
      () => list(query),
      (deliveries) => deliveries.length === count,
    );
  const received = (messageIds: readonly string[]) =>
    eventually(
      () => webhook.deliveries().map(({ event }) => event.message_id),
      (got) => messageIds.every((id) => got.includes(id)),
    );

  it('dead deliveries are listed by cause, discarded or redriven', async () => {
    webhook.behave(({ body }, response) => {
      const { event } = body.event as { event?: string };
      response.writeHead(event === 'Bad' ? 422 : 404).end();
    });
    const bad = await send('Bad');
    const gone = await send('Gone');
    await listed(`status=dead&rule_id=${ruleId}`, 2);
    expect(await list('status=dead&reason=422')).toMatchObject([{ message_id: bad }]);
    expect(await list(`status=dead&until=2020-01-01`)).toEqual([]);

    expect(await tributary.owner.post('./deliveries/discard', { reason: '422' })).toMatchObject({
      discarded: 1,
    });
    const [discarded] = await listed('status=discarded', 1);
    expect(discarded).toMatchObject({ message_id: bad });

    webhook.behave(undefined);
    expect(await tributary.owner.post('./deliveries/redrive', {})).toMatchObject({ redriven: 1 });
    await received([gone]);
    await listed('status=delivered', 1);
    expect((await tributary.owner.call('POST', `./deliveries/${discarded?.id}/redrive`)).status).toBe(409);
    const way = await tributary.owner.get<{ status: string }>(`./events/${bad}`);
    expect(way.status).toBe('discarded');
  });

  it('1,000 deliveries that wait when their destination is disabled end, and are redriven once it is enabled', async () => {
    await change({ paused: true });
    const ids = Array.from({ length: 1_000 }, (_, n) => `queued-${n}`);
    for (let at = 0; at < ids.length; at += 100) {
      const batch = ids
        .slice(at, at + 100)
        .map((message_id) => ({ type: 'track', event: 'Queued', user_id: message_id, message_id }));
      await tributary.producer.post('./events/batch', { batch });
    }
    await listed('status=retrying&limit=100', 100);
    await change({ enabled: false });
    const redrive = (dry_run: boolean) =>
      tributary.owner.post<{ redriven: number }>('./deliveries/redrive', {
        reason: 'the destination is disabled',
        dry_run,
      });
    await listed('status=retrying', 0);
    expect(await redrive(true)).toMatchObject({ redriven: 0 });
    await change({ enabled: true });
    const before = webhook.deliveries().length;
    expect(await redrive(true)).toMatchObject({ redriven: ids.length });
    expect(await redrive(false)).toMatchObject({ redriven: ids.length });
    await received(ids);
    expect(webhook.deliveries()).toHaveLength(before + ids.length);
  });

  it('a paused destination receives nothing until it is resumed, and then every waiting delivery', async () => {
    await change({ paused: true });
    const before = webhook.calls.length;
    const ids = [await send('One'), await send('Two'), await send('Three')];
    await listed(`status=retrying&destination_id=${destinationId}`, 3);
    expect((await list('status=retrying')).map(({ reason }) => reason)).toContain(
      'the destination is paused',
    );
    const way = await tributary.owner.get<{ status: string }>(`./events/${ids[0]}`);
    expect(way.status).toBe('under_way');
    expect(webhook.calls).toHaveLength(before);

    await change({ paused: false });
    await received(ids);
    await listed('status=retrying', 0);
  });
});
