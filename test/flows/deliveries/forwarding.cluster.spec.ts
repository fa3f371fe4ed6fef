import { Webhook as StandardWebhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface Destination {
  readonly id: string;
  readonly settings: { readonly secret?: string };
}

/** Rules select the destinations of an event; connectors deliver it. */
describe('Forwarding', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  beforeAll(async () => {
    tributary = await startTributary();
    webhook = await startWebhook();
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const destination = (body: object) => tributary.owner.post<Destination>('./destinations', body);
  const rule = (body: object) =>
    tributary.owner.post<{ id: string }>('./event-forwarding-rules', {
      name: 'rule',
      event_types: [],
      event_names: [],
      transformation_id: null,
      enabled: true,
      ...body,
    });

  it('posts an event to a webhook, signed as Standard Webhooks specifies', async () => {
    const made = await destination({ name: 'hook', type: 'webhook', settings: { url: webhook.url } });
    expect(made.settings.secret).toMatch(/^whsec_/);
    const { id: ruleId } = await rule({
      destination_id: made.id,
      event_types: ['track'],
      event_names: ['Paid'],
    });
    await tributary.producer.post('./events/track', {
      event: 'Paid',
      user_id: 'u1',
      message_id: 'paid-1',
      properties: { total: 3 },
    });
    await tributary.producer.post('./events/track', { event: 'Looked', user_id: 'u1' });
    await eventually(
      () => webhook.calls.length,
      (count) => count === 1,
    );

    const call = webhook.calls[0];
    expect(call?.body).toMatchObject({
      id: expect.any(String),
      type: 'event',
      attempt: 1,
      rule_id: ruleId,
      destination_id: made.id,
      event: {
        message_id: 'paid-1',
        type: 'track',
        event: 'Paid',
        user_id: 'u1',
        properties: { total: 3 },
        environment: 'production',
        workspace_id: tributary.workspaceId,
      },
    });
    expect(call?.headers['webhook-id']).toBe(call?.body.id);
    const verified = new StandardWebhook(made.settings.secret ?? '').verify(
      call?.text ?? '',
      call?.headers as Record<string, string>,
    );
    expect(verified).toEqual(call?.body);
    const listed = await tributary.owner.get<readonly Destination[]>('./destinations');
    expect(JSON.stringify(listed)).not.toContain(made.settings.secret);
  });

  it('keeps the digits of large numbers and the normalized form of times, also through a transformation', async () => {
    const place = await destination({ name: 'exact', type: 'webhook', settings: { url: webhook.url } });
    const source_code =
      'function transform(event) { return { ...event, event: "Changed", timestamp: event.timestamp.slice(0, 19) } }';
    const { id: transformation_id } = await tributary.owner.post<{ id: string }>('./event-transformations', {
      name: 'exact',
      source_code,
      test_input: { timestamp: '2024-05-06T01:38:09.250Z' },
      test_output: { timestamp: '2024-05-06T01:38:09', event: 'Changed' },
    });
    for (const transformation of [null, transformation_id])
      await rule({ destination_id: place.id, event_names: ['Exact'], transformation_id: transformation });
    await tributary.producer.post('./events/track', {
      event: 'Exact',
      user_id: 'u1',
      timestamp: '2024-05-06T07:08:09.25+05:30',
      properties: {
        order: JSON.rawJSON('5412589630147852369'),
        rate: JSON.rawJSON('0.12345678901234567890'),
      },
    });
    const texts = await eventually(
      () => webhook.calls.filter(({ body }) => body.destination_id === place.id).map(({ text }) => text),
      (found) => found.length === 2,
    );
    for (const text of texts) {
      expect(text).toContain('{"order":5412589630147852369,"rate":0.12345678901234567890}');
      expect(text).toContain('"context":{"tributary":{"timestamp":"2024-05-06T07:08:09.25+05:30"}}');
    }
    const times = webhook.deliveries().filter(({ destination_id }) => destination_id === place.id);
    expect(new Set(times.map(({ event }) => event.timestamp))).toEqual(
      new Set(['2024-05-06T01:38:09.250Z', '2024-05-06T01:38:09.000Z']),
    );
  });

  it('a disabled rule forwards nothing, and a change of a rule applies to the next event', async () => {
    const quiet = await startWebhook();
    const made = await destination({ name: 'quiet', type: 'webhook', settings: { url: quiet.url } });
    const body = {
      name: 'switch',
      destination_id: made.id,
      event_types: ['group'],
      event_names: [],
      transformation_id: null,
    };
    const { id } = await tributary.owner.post<{ id: string }>('./event-forwarding-rules', {
      ...body,
      enabled: false,
    });
    await tributary.producer.post('./events/group', { user_id: 'u1', group_id: 'before' });
    // A rule applies to events routed while it is enabled: once a later event of the same user has arrived,
    // this one was routed.
    await tributary.producer.post('./events/track', { event: 'Paid', user_id: 'u1', message_id: 'marker' });
    await eventually(
      () => webhook.deliveries().some(({ event }) => event.message_id === 'marker'),
      (arrived) => arrived,
    );
    await tributary.owner.put(`./event-forwarding-rules/${id}`, { ...body, enabled: true });
    await tributary.producer.post('./events/group', { user_id: 'u1', group_id: 'after' });
    await eventually(
      () => quiet.calls.length,
      (count) => count > 0,
    );
    expect(quiet.deliveries().map(({ event }) => event.group_id)).not.toContain('before');
    await quiet.close();
  });
});
