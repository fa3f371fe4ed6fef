import { gzipSync } from 'node:zlib';
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

  it('keeps a given message_id, and counts a repeated event once', async () => {
    const body = { event: 'Repeated', user_id: 'u1', message_id: 'order-17' };
    for (let time = 0; time < 5; time++) {
      const answer = await tributary.producer.call('POST', './events/track', { body });
      expect(answer.body).toEqual({ message_id: 'order-17', status: 'received' });
    }
    await tributary.producer.post('./events/track', { event: 'After', user_id: 'u1' });
    await eventually(
      () => counted('track', 'After'),
      (count) => count === 1,
    );
    expect(await counted('track', 'Repeated')).toBe(1);
  });

  it('accepts the valid events of a batch and lists the invalid ones', async () => {
    const batch = [
      { type: 'track', event: 'In Batch', user_id: 'u1' },
      { type: 'track', user_id: 'u1' },
      { type: 'page', name: 'In Batch', anonymous_id: 'a1' },
      { type: 'screen', user_id: 'u1' },
      { type: 'identify', traits: {} },
      'no object',
    ];
    const { status, body } = await tributary.producer.call('POST', './events/batch', { body: { batch } });
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
    const allBad = await tributary.producer.call('POST', './events/batch', { body: { batch: [1, 2] } });
    expect(allBad).toMatchObject({ status: 202, body: { accepted: 0 } });
  });

  it('inflates gzip', async () => {
    const response = await fetch(`${tributary.url}/api/v1/workspaces/${tributary.workspaceId}/events/track`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${tributary.writeKey}`,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
      },
      body: gzipSync(JSON.stringify({ event: 'Compressed', user_id: 'u1' })),
    });
    expect(response.status).toBe(202);
    await eventually(
      () => counted('track', 'Compressed'),
      (count) => count === 1,
    );
  });

  it('counts accepted events of both environments by type, name and hour of receipt', async () => {
    const { owner } = tributary;
    const { key } = await owner.post<{ key: string }>('./event-keys', {
      name: 'test',
      environment: 'development',
    });
    const [production, development] = [tributary.producer, owner.with({ token: key })];
    await owner.post('./event-contracts', {
      name: 'Never',
      event_type: 'track',
      event_name: 'Never',
      schema_definition: { properties: { total: { type: 'number', required: true } } },
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
    });
    const volume = async (query = '') =>
      (await owner.get<readonly (Volume & { hour_bucket: string })[]>(`./event-volume${query}`)).filter(
        ({ event_name }) => ['Bought', 'Pricing', ''].includes(event_name),
      );
    const sums = (records: readonly Volume[]) => {
      const found: Record<string, number> = {};
      for (const { event_type, event_name, event_count } of records)
        found[`${event_type}:${event_name}`] = (found[`${event_type}:${event_name}`] ?? 0) + event_count;
      return found;
    };
    const before = sums(await volume());
    const user_id = 'u-volume';
    const track = { type: 'track', event: 'Bought', user_id, timestamp: '2020-02-02T02:02:02Z' };
    const batch = [
      { ...track, message_id: 'bought-1' },
      { ...track, message_id: 'bought-1' },
      track,
      { type: 'track', event: 'Never', user_id },
      { type: 'page', name: 'Pricing', user_id },
      { type: 'page', user_id },
      { type: 'identify', user_id },
      { type: 'group', group_id: 'g', user_id },
    ];
    await production.post('./events/batch', { batch });
    await development.post('./events/batch', { batch: [track, { type: 'page', name: 'Pricing', user_id }] });
    const added = async (query?: string) => {
      const now = sums(await volume(query));
      return Object.fromEntries(
        Object.entries(now).map(([name, count]) => [name, count - (before[name] ?? 0)]),
      );
    };
    const all = { 'track:Bought': 3, 'page:Pricing': 2, 'page:': 1, 'identify:': 1, 'group:': 1 };
    await eventually(added, (now) => Object.entries(all).every(([name, count]) => (now[name] ?? 0) >= count));
    expect(await added()).toEqual(all);
    expect(sums(await volume('?environment=development'))).toEqual({ 'track:Bought': 1, 'page:Pricing': 1 });
    const hours = new Set((await volume('?hours=720')).map(({ hour_bucket }) => hour_bucket));
    for (const hour of hours) {
      expect(hour).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:00:00\.000Z$/);
      expect(Date.now() - Date.parse(hour)).toBeLessThan(2 * 3_600_000);
    }
    expect(await counted('track', 'Never')).toBe(0);
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
        body: { event: 'Checked', user_id: 'u1', properties },
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
