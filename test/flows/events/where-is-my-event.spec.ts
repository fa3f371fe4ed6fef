import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface DeliveryWay {
  readonly id: string;
  readonly status: string;
  readonly first_try: boolean;
  readonly attempts: readonly { readonly status: number | null; readonly response: string | null }[];
}

interface RuleWay {
  readonly name: string;
  readonly matched: boolean | null;
  readonly because: string | null;
  readonly message: string | null;
  readonly changed_since: boolean;
  readonly transformation: string;
  readonly deliveries: readonly DeliveryWay[];
}

interface Way {
  readonly status: string;
  readonly stage: string | null;
  readonly received: { readonly at: string; readonly position: { readonly topic: string } };
  readonly contract: {
    readonly outcome: string;
    readonly contract_version: number | null;
    readonly violations: readonly { readonly path: string }[];
  } | null;
  readonly rules: readonly RuleWay[];
  readonly looked: { readonly complete: boolean; readonly duration_ms: number };
}

/** Readable by the filter of the rule "dear ones", and not matched by it. */
const PRICED = { properties: { total: 5 } };

/**
 * One query gives the whole trace of an event: received, evaluated, matched or not and why, transformed,
 * delivered.
 */
describe('Where is my event', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  beforeAll(async () => {
    tributary = await startTributary({
      env: { TRIBUTARY_RETRY_SCHEDULE: '300ms,600ms', TRIBUTARY_RETRY_EXPIRY: '1500ms' },
    });
    webhook = await startWebhook((call, response) => {
      const { event } = call.body.event as { event?: string };
      if (event === 'Down') response.writeHead(503).end('not today');
      else if (event === 'Refused') response.writeHead(403).end('no');
      else response.writeHead(204).end();
    });
    destinationId = await make('destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    await make('event-contracts', {
      name: 'orders',
      event_type: 'track',
      event_name: 'Ordered',
      enforcement_mode: 'block',
      schema_definition: { properties: { total: { type: 'number', required: true } } },
    });
    await rule({ name: 'all tracks', event_types: ['track'] });
    await rule({ name: 'dear ones', filter: 'event.properties.total > 100' });
    await rule({ name: 'switched off', enabled: false });
    const source =
      'function transform(event) { if (event.event === "Thrown") throw new Error("no total"); return event.event === "Twice" ? [event, event] : null; }';
    const transformation_id = await make('event-transformations', {
      name: 'picky',
      source_code: source,
      test_input: { type: 'track', event: 'Dropped', user_id: 'u' },
      test_output: [],
    });
    await rule({ name: 'transformed', transformation_id });
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const make = async (resource: string, body: object) =>
    (await tributary.owner.post<{ id: string }>(`./${resource}`, body)).id;
  const rule = (fields: object) =>
    make('event-forwarding-rules', { destination_id: destinationId, ...fields });
  const send = async (event: string, more: object = {}) =>
    (
      await tributary.producer.post<{ message_id: string }>('./events/track', {
        event,
        user_id: `user of ${event}`,
        ...more,
      })
    ).message_id;
  const ask = (messageId: string, query = '') =>
    tributary.owner.call<Way>('GET', `./events/${encodeURIComponent(messageId)}${query}`);
  const settled = (messageId: string, statuses: readonly string[]) =>
    eventually(
      () => ask(messageId),
      ({ status, body }) => status === 200 && statuses.includes(body.status),
    ).then(({ body }) => body);
  const at = (way: Way, name: string) => way.rules.find((one) => one.name === name);

  it('delivered: the trace has the time of receipt, the matching rules and why the others did not match', async () => {
    const messageId = await send('Seen', { properties: { total: 5 } });
    const way = await settled(messageId, ['delivered']);
    expect(way.received.position.topic).toBe('events.production');
    expect(way.contract).toMatchObject({ outcome: 'accepted', contract_version: null });
    expect(at(way, 'all tracks')).toMatchObject({
      matched: true,
      because: null,
      transformation: 'none',
      deliveries: [{ status: 'delivered', first_try: true, attempts: [] }],
    });
    expect(at(way, 'dear ones')).toMatchObject({ matched: false, because: 'filter' });
    expect(at(way, 'switched off')).toMatchObject({ matched: false, because: 'disabled' });
    expect(at(way, 'transformed')).toMatchObject({
      matched: true,
      transformation: 'dropped',
      deliveries: [],
    });
    expect(way.looked).toMatchObject({ complete: true });
    expect(webhook.deliveries().map(({ id }) => id)).toContain(at(way, 'all tracks')?.deliveries[0]?.id);
  });

  it('sent twice with an id of the producer: the trace is found by that id', async () => {
    const message_id = `order/1 "${Date.now()}"`;
    await send('Seen', { message_id, properties: { total: 500 } });
    await send('Seen', { message_id, properties: { total: 500 } });
    const way = await settled(message_id, ['delivered']);
    expect(at(way, 'dear ones')?.deliveries).toHaveLength(1);
    expect((await ask(message_id, '?environment=development')).status).toBe(404);
  });

  it('rejected: the trace has the version of the contract and the reason', async () => {
    const way = await settled(await send('Ordered'), ['rejected']);
    expect(way.contract).toMatchObject({
      outcome: 'rejected',
      contract_version: 1,
      violations: [{ kind: 'required', path: '/total', action: 'blocked' }],
    });
    expect(way.rules).toEqual([]);
  });

  it('filter failed: the trace has the dead delivery and the failure', async () => {
    const way = await settled(await send('Bare'), ['dead']);
    expect(at(way, 'dear ones')).toMatchObject({
      matched: false,
      because: 'filter_failed',
      message: 'No such key: properties',
      deliveries: [{ status: 'dead', cause: 'filter_failed' }],
    });
    expect(at(way, 'all tracks')?.deliveries).toMatchObject([{ status: 'delivered' }]);
  });

  it('transformed: the trace has both outputs, or the failure', async () => {
    const twice = at(await settled(await send('Twice', PRICED), ['delivered']), 'transformed');
    expect(twice).toMatchObject({ transformation: 'outputs', deliveries: [{ index: 0 }, { index: 1 }] });
    const thrown = at(await settled(await send('Thrown', PRICED), ['dead']), 'transformed');
    expect(thrown).toMatchObject({
      transformation: 'failed',
      deliveries: [{ status: 'dead', cause: 'transformation', reason: expect.stringContaining('no total') }],
    });
  });

  it('refused by its destination: the trace has the attempt with its status and response', async () => {
    const way = await settled(await send('Refused'), ['dead']);
    expect(at(way, 'all tracks')?.deliveries).toMatchObject([
      { status: 'dead', attempts: [{ status: 403, response: 'no', outcome: 'dead' }] },
    ]);
  });

  it('pending: the trace has the time of the next attempt, then the dead delivery with every attempt', async () => {
    const messageId = await send('Down');
    const retrying = await eventually(
      () => ask(messageId),
      ({ body }) => at(body, 'all tracks')?.deliveries[0]?.status === 'retrying',
    );
    expect(retrying.body.status).toBe('under_way');
    const dead = at(await settled(messageId, ['dead']), 'all tracks')?.deliveries[0];
    expect(dead?.attempts.length).toBeGreaterThan(1);
    expect(dead?.attempts.every(({ status, response }) => status === 503 && response === 'not today')).toBe(
      true,
    );
  });

  it('a rule made just before the event was said to be changed after it: only a change after it is', async () => {
    const fields = { name: 'just made', destination_id: destinationId, event_names: ['Prompt'] };
    const id = await make('event-forwarding-rules', fields);
    const messageId = await send('Prompt', PRICED);
    const before = at(await settled(messageId, ['delivered']), 'just made');
    expect(before).toMatchObject({ matched: true, changed_since: false, deliveries: [{ first_try: true }] });
    const other = { ...fields, event_names: ['Another'] };
    await tributary.owner.call('PUT', `./event-forwarding-rules/${id}`, other);
    const after = at((await ask(messageId)).body, 'just made');
    expect(after).toMatchObject({ matched: true, changed_since: true });
  });

  it('never received: the answer is not found, with the range that was searched', async () => {
    const missing = await ask('0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01');
    expect(missing).toMatchObject({ status: 404, body: { error: 'not found', looked: { complete: true } } });
    expect((await ask('nothing of ours', `?around=${new Date().toISOString()}&subject=u`)).status).toBe(404);
    expect((await ask('x', '?around=yesterday')).status).toBe(400);
  });
});
