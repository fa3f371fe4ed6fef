import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface Transformation {
  readonly id: string;
  readonly status: string;
  readonly test_error: string | null;
}

/** A transformation is a JavaScript function with a test; a rule may only use one that passes its test. */
describe('Transformations', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  beforeAll(async () => {
    tributary = await startTributary();
    webhook = await startWebhook();
    const settings = { url: webhook.url };
    destinationId = (
      await tributary.owner.post<{ id: string }>('./destinations', {
        name: 'hook',
        type: 'webhook',
        settings,
      })
    ).id;
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const example = (properties: object) => ({ type: 'track', event: 'E', user_id: 'u', properties });
  const create = (body: object) =>
    tributary.owner.call<Transformation>('POST', './event-transformations', body);
  const rule = (transformationId: string, eventName: string) =>
    tributary.owner.call<{ id: string }>('POST', './event-forwarding-rules', {
      name: eventName,
      destination_id: destinationId,
      event_types: ['track'],
      event_names: [eventName],
      transformation_id: transformationId,
      enabled: true,
    });
  const arrived = (event: string, count = 1) =>
    eventually(
      () => webhook.deliveries().filter((delivery) => delivery.event.event === event),
      (found) => found.length >= count,
    );

  it('a transformation changes, drops and multiplies events before delivery', async () => {
    const made = await create({
      name: 'fan',
      source_code: `function transform(event) {
        if (event.properties.n === 0) return null;
        return Array.from({ length: event.properties.n }, (_, i) => ({ ...event, properties: { i } }));
      }`,
      test_input: example({ n: 0 }),
      test_output: [],
    });
    // An empty array and null are both "nothing".
    expect(made.body.status).toBe('active');
    expect((await rule(made.body.id, 'Fan')).status).toBe(201);
    for (const n of [0, 3])
      await tributary.producer.post('./events/track', { event: 'Fan', user_id: 'u', properties: { n } });
    const found = await arrived('Fan', 3);
    expect(found.map(({ event }) => event.properties)).toEqual(
      expect.arrayContaining([{ i: 0 }, { i: 1 }, { i: 2 }]),
    );
    expect(new Set(found.map(({ id }) => id)).size).toBe(3);
  });

  it('an event whose transformation fails is a dead delivery with the reason, and is delivered once the code is corrected and it is redriven', async () => {
    const made = await create({
      name: 'fails',
      source_code:
        'function transform(event) { if (event.properties.bad) throw new Error("cannot do that"); return event; }',
      test_input: example({}),
      test_output: example({}),
    });
    await rule(made.body.id, 'Fails');
    await tributary.producer.post('./events/track', {
      event: 'Fails',
      user_id: 'u',
      properties: { bad: true },
    });
    await tributary.producer.post('./events/track', { event: 'Fails', user_id: 'u', properties: {} });
    await arrived('Fails');
    const [dead] = await eventually(
      () => tributary.owner.get<readonly { id: string; reason: string }[]>('./deliveries?status=dead'),
      (found) => found.length > 0,
    );
    expect(dead).toMatchObject({
      status: 'dead',
      reason: expect.stringContaining('cannot do that'),
      destination_id: destinationId,
    });
    await tributary.owner.put(`./event-transformations/${made.body.id}`, {
      name: 'fails no more',
      source_code: 'function transform(event) { event.properties.mended = true; return event; }',
      test_input: example({}),
      test_output: example({ mended: true }),
    });
    expect((await tributary.owner.call('POST', `./deliveries/${dead?.id}/redrive`)).status).toBe(202);
    const found = await arrived('Fails', 2);
    expect(found.at(-1)).toMatchObject({ id: dead?.id, event: { properties: { bad: true, mended: true } } });
    await eventually(
      () => tributary.owner.get<{ status: string }>(`./deliveries/${dead?.id}`),
      ({ status }) => status === 'delivered',
    );
  });
});
