import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Volume {
  readonly event_type: string;
  readonly event_name: string;
  readonly event_count: number;
}

/** Four types of events, one by one or in batches; a 202 means that they are durable in the log. */
describe('Ingestion', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  const counted = async (type: string, name = '') =>
    (await tributary.owner.get<readonly Volume[]>('./event-volume'))
      .filter(({ event_type, event_name }) => event_type === type && event_name === name)
      .reduce((sum, { event_count }) => sum + event_count, 0);

  it('accepts the valid events of a batch and lists the invalid ones', async () => {
    const batch = [
      { type: 'track', event: 'In Batch', user_id: 'u1' },
      { type: 'track', user_id: 'u1' },
      { type: 'page', name: 'In Batch', anonymous_id: 'a1' },
      { type: 'screen', user_id: 'u1' },
      { type: 'identify', traits: {} },
      'no object',
    ];
    const { status, body } = await tributary.producer.call('POST', './events/batch', { batch });
    expect(status).toBe(202);
    expect(body).toMatchObject({
      accepted: 2,
      rejected: [
        { index: 1, error: 'invalid request', details: [{ path: '/event', message: 'is required' }] },
        { index: 3, error: 'invalid request', details: [{ path: '/type' }] },
        { index: 4, error: 'invalid request', details: [{ message: 'user_id or anonymous_id is required' }] },
        { index: 5, error: 'invalid request' },
      ],
    });
    await eventually(
      () => counted('track', 'In Batch'),
      (count) => count === 1,
    );
    const allBad = await tributary.producer.call('POST', './events/batch', { batch: [1, 2] });
    expect(allBad).toMatchObject({ status: 202, body: { accepted: 0 } });
  });

  it('answers with the verdict of the contract before storing the event, on request', async () => {
    await tributary.owner.post('./event-contracts', {
      name: 'Checked',
      event_type: 'track',
      event_name: 'Checked',
      schema_definition: { properties: { total: { type: 'number', required: true } } },
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
    });
    const send = (properties: object) =>
      tributary.producer.call('POST', './events/track?check=contract', {
        event: 'Checked',
        user_id: 'u1',
        properties,
      });
    expect(await send({ total: 'much' })).toMatchObject({
      status: 400,
      body: { error: 'event blocked', violations: [{ kind: 'type', path: '/total' }] },
    });
    expect((await send({ total: 1 })).status).toBe(202);
    await eventually(
      () => counted('track', 'Checked'),
      (count) => count === 1,
    );
  });
});
