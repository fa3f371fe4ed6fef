import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface Made {
  readonly id: string;
  readonly key: string;
  readonly last_used_at: string | null;
}

interface Entry {
  readonly action: string;
  readonly actor: { readonly type: string; readonly id: string; readonly email: string | null };
  readonly entity: { readonly type: string; readonly id: string; readonly name: string | null };
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
}

/** The sources of events, the keys in use, and the author of each change. */
describe('Sources, keys in use and the audit log', () => {
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

  it('an event carries the source of its write key to the destination, with and without a transformation', async () => {
    const { owner } = tributary;
    const source = await owner.post<Made>('./sources', { name: 'Shop', type: 'web' });
    const key = await owner.post<Made>('./event-keys', {
      name: 'shop',
      environment: 'production',
      source_id: source.id,
    });
    const destination = await owner.post<Made>('./destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    const renaming = await owner.post<Made & { status: string }>('./event-transformations', {
      name: 'rename',
      source_code: `function transform({ user_id }) { return { type: 'track', event: 'Renamed', user_id }; }`,
      test_input: { user_id: 'u' },
      test_output: { type: 'track', event: 'Renamed', user_id: 'u' },
    });
    expect(renaming.status).toBe('active');
    for (const transformation_id of [null, renaming.id])
      await owner.post('./event-forwarding-rules', {
        name: 'all',
        destination_id: destination.id,
        event_types: ['track'],
        event_names: ['Bought'],
        transformation_id,
        enabled: true,
      });
    await owner.with({ token: key.key }).post('./events/track', { event: 'Bought', user_id: 'ada' });
    await tributary.producer.post('./events/track', { event: 'Bought', user_id: 'bob' });
    await eventually(
      () => webhook.deliveries().length,
      (count) => count === 4,
    );
    const seen = webhook.deliveries().map(({ event }) => [event.user_id, event.event, event.source_id]);
    expect(seen.toSorted()).toEqual([
      ['ada', 'Bought', source.id],
      ['ada', 'Renamed', source.id],
      ['bob', 'Bought', undefined],
      ['bob', 'Renamed', undefined],
    ]);
    expect((await owner.call('DELETE', `./sources/${source.id}`)).status).toBe(409);
    await owner.call('DELETE', `./event-keys/${key.id}`);
    expect((await owner.call('DELETE', `./sources/${source.id}`)).status).toBe(200);
  });

  it('a write key shows its last use, also when a contract blocked the event', async () => {
    const { owner } = tributary;
    const uses = async (list: string, id: string) =>
      (await owner.get<readonly Made[]>(list)).find((key) => key.id === id)?.last_used_at ?? null;
    await owner.post('./event-contracts', {
      name: 'no',
      event_type: 'track',
      event_name: 'Forbidden',
      schema_definition: { properties: { must: { type: 'string', required: true } } },
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
    });
    const site = await owner.post<Made>('./event-keys', { name: 'site', environment: 'production' });
    const server = await owner.post<Made>('./api-keys', { name: 'server', role: 'viewer' });
    expect([await uses('./event-keys', site.id), await uses('./api-keys', server.id)]).toEqual([null, null]);
    const before = Date.now();
    await owner.with({ token: site.key }).post('./events/track', { event: 'Forbidden', user_id: 'u' });
    await owner.with({ token: server.key }).get('./sources');
    for (const [list, { id }] of [['./event-keys', site] as const, ['./api-keys', server] as const]) {
      const at = await eventually(
        () => uses(list, id),
        (shown) => shown !== null,
      );
      expect(Date.parse(String(at))).toBeGreaterThanOrEqual(before);
      expect(Date.parse(String(at))).toBeLessThanOrEqual(Date.now());
    }
  });

  it('the audit log lists every change exactly once after processes were killed', async () => {
    const { owner, folder } = tributary;
    for (let n = 0; n < 5; n++) await owner.post('./sources', { name: `n${n}`, type: 'killed' });
    await tributary.kill();
    tributary = await startTributary({ folder });
    for (let n = 5; n < 8; n++) await tributary.owner.post('./sources', { name: `n${n}`, type: 'killed' });
    const names = async () =>
      (
        await tributary.owner.get<readonly Entry[]>(
          './audit-log?entity_type=source&action=created&limit=1000',
        )
      )
        .filter(({ after }) => after?.type === 'killed')
        .map(({ entity }) => entity.name);
    const all = Array.from({ length: 8 }, (_, n) => `n${7 - n}`);
    expect(await eventually(names, (list) => list.length >= all.length)).toEqual(all);
  });
});
