import { HEADER, type LogEntry, NO_LOGGER, NO_METRICS, partitionOf, TOPIC } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
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

  it('two redrives in quick succession sent a delivery twice, also through two gateways', async () => {
    webhook.behave((_call, response) => response.writeHead(422).end());
    const dead = [await send('Twice'), await send('Twice')];
    await listed('status=dead', 2);
    webhook.behave(undefined);
    const redrive = (filter: object) =>
      tributary.owner.post<{ redriven: number }>('./deliveries/redrive', filter);
    const answers = await Promise.all([redrive({ destination_id: destinationId }), redrive({})]);
    expect(answers.map(({ redriven }) => redriven).sort()).toEqual([0, 2]);
    await received(dead);

    const config = readConfig(tributary.environment);
    const log = await openEventLog(config, { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false });
    try {
      const partition = partitionOf(`${destinationId}:u`, log.topics.get(TOPIC.deliveries)?.partitions ?? 1);
      const first: LogEntry[] = [];
      for (let next = 0; next < (await log.end(TOPIC.deliveries, partition)); ) {
        const read = await log.read(TOPIC.deliveries, partition, next);
        first.push(...read.entries.filter(({ headers }) => headers[HEADER.redriveOf] !== undefined));
        next = read.next;
      }
      const repeated = first.filter(({ headers }) => dead.includes(headers[HEADER.messageId] ?? ''));
      expect(repeated).toHaveLength(2);
      await log.append(TOPIC.deliveries, repeated);
      const end = await log.end(TOPIC.deliveries, partition);
      await eventually(
        () => log.positionOf('deliver', TOPIC.deliveries, partition),
        (position) => (position ?? 0) >= end,
      );
    } finally {
      await log.close();
    }
    const posts = webhook.deliveries().filter(({ event }) => dead.includes(event.message_id));
    expect(posts).toHaveLength(2 + 2);
    await listed('status=dead', 0);
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

  it('a destination that answers 410 is paused with the reason, and receives every waiting delivery once it is resumed', async () => {
    webhook.behave((_call, response) => response.writeHead(410).end());
    const first = await send('First');
    const shown = await eventually(
      () =>
        tributary.owner.get<{ paused: boolean; paused_because: object }>(`./destinations/${destinationId}`),
      ({ paused }) => paused,
    );
    expect(shown.paused_because).toMatchObject({ reason: 'gone' });
    const health = `./destinations/${destinationId}/health`;
    expect(await tributary.owner.get(health)).toMatchObject({
      state: 'paused',
      paused_because: { reason: 'gone' },
      notice: { state: 'bad', because: 'gone' },
    });
    const before = webhook.calls.length;
    const second = await send('Second');
    await listed(`status=retrying&reason=it answered 410 Gone`, 2);
    expect(webhook.calls).toHaveLength(before);

    webhook.behave(undefined);
    await change({ paused: false });
    await received([first, second]);
    expect(await tributary.owner.get(`./destinations/${destinationId}`)).toMatchObject({
      paused_because: null,
    });
  });

  it('a destination can be limited to some environments, and is tested without an event', async () => {
    await change({ environments: ['development'] });
    const id = await send('Elsewhere');
    const way = await eventually(
      () => tributary.owner.get<{ status: string; rules: readonly { because: string }[] }>(`./events/${id}`),
      ({ status }) => status === 'not_forwarded',
    );
    expect(way.rules).toMatchObject([{ matched: false, because: 'destination_environment' }]);
    expect(await tributary.owner.post(`./destinations/${destinationId}/test`)).toMatchObject({ ok: true });
    await change({});
  });
});
