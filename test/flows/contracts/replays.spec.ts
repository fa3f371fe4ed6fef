import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const EVENTS = 40;

interface Replay {
  readonly id: string;
  readonly status: string;
  readonly progress: { readonly share: number; readonly events: number };
}

interface Trace {
  readonly status: string;
  readonly contract: object | null;
}

interface Volume {
  readonly event_name: string;
  readonly event_count: number;
}

/**
 * Accepted events are replayed to their destinations, at a limited rate, marked as replays, despite kills of
 * processes.
 */
describe('Replays', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  let ruleId: string;
  const since = new Date().toISOString();
  beforeAll(async () => {
    tributary = await startTributary();
    webhook = await startWebhook();
    destinationId = await make('destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    ruleId = await make('event-forwarding-rules', { name: 'all', destination_id: destinationId });
    const batch = Array.from({ length: EVENTS }, (_, n) => ({
      type: 'track',
      event: 'Seen',
      user_id: `u${n % 5}`,
      message_id: `m-${n}`,
    }));
    await tributary.producer.post('./events/batch', { batch });
    await eventually(
      () => webhook.deliveries().length,
      (count) => count === EVENTS,
    );
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const make = async (resource: string, body: object) =>
    (await tributary.owner.post<{ id: string }>(`./${resource}`, body)).id;
  const ended = (id: string) =>
    eventually(
      () => tributary.owner.get<Replay>(`./replays/${id}`),
      ({ status }) => !['pending', 'running'].includes(status),
    );
  const replayed = (id: string) =>
    webhook.deliveries().filter((delivery) => 'replay' in delivery && delivery.replay === id);

  it('a replay whose process is killed continues at its position and repeats no event', async () => {
    const asked = { since, rule_id: ruleId, events_per_second: 20 };
    const { id } = await tributary.owner.post<Replay>('./replays', asked);
    await eventually(
      () => replayed(id).length,
      (count) => count > 0,
    );
    await tributary.kill();
    tributary = await startTributary({ folder: tributary.folder });
    expect(await ended(id)).toMatchObject({ status: 'finished', progress: { events: EVENTS } });
    const distinct = () => new Set(replayed(id).map((delivery) => delivery.id));
    await eventually(
      () => distinct().size,
      (count) => count === EVENTS,
    );
    expect(distinct().size).toBe(EVENTS);
  });

  it('rejected events stayed rejected when their contract was corrected: they are accepted once, and their trace says so', async () => {
    const contract = {
      name: 'shipments',
      event_type: 'track',
      event_name: 'Shipped',
      enforcement_mode: 'block',
    };
    const required = (...fields: string[]) => ({
      schema_definition: { properties: { weight: { type: 'number' } }, required: fields },
    });
    const made = await tributary.owner.post<{ id: string }>('./event-contracts', {
      ...contract,
      ...required('weight', 'carrier'),
    });
    const shipped = (id: string, properties: object) => ({
      type: 'track',
      event: 'Shipped',
      user_id: 'u9',
      message_id: id,
      properties,
    });
    const batch = [shipped('s-1', { weight: 2.5 }), shipped('s-2', {}), shipped('s-3', { weight: 3 })];
    await tributary.producer.post('./events/batch', { batch });
    const trace = (id: string) => tributary.owner.get<Trace>(`./events/${id}`);
    for (const { message_id } of batch)
      await eventually(
        () => trace(message_id).catch(() => undefined),
        (way) => way?.status === 'rejected',
      );
    await tributary.owner.call('PUT', `./event-contracts/${made.id}`, { ...contract, ...required('weight') });
    // The producer sends a corrected copy of one of them.
    await tributary.producer.post('./events/batch', { batch: [shipped('s-3', { weight: 3, carrier: 'x' })] });

    const asked = { since, outcome: 'rejected', contract_id: made.id, events_per_second: 400 };
    for (const _run of [1, 2]) {
      const { id } = await tributary.owner.post<Replay>('./replays', asked);
      expect(await ended(id)).toMatchObject({
        status: 'finished',
        outcome: 'rejected',
        progress: { share: 1, events: 2, still_rejected: 1 },
      });
    }
    const way = await eventually(
      () => trace('s-1'),
      ({ status }) => status === 'delivered',
    );
    expect(way.contract).toMatchObject({
      outcome: 'rejected',
      contract_id: made.id,
      contract_version: 1,
      reevaluated: { outcome: 'accepted', contract_id: made.id, contract_version: 2 },
    });
    expect(await trace('s-2')).toMatchObject({ status: 'rejected', contract: { reevaluated: null } });
    const sentOn = () =>
      webhook
        .deliveries()
        .map(({ event }) => event.message_id)
        .filter((id) => id.startsWith('s-'))
        .sort();
    await eventually(sentOn, (ids) => ids.length >= 2);
    expect(sentOn()).toEqual(['s-1', 's-3']);
    expect(await trace('s-3')).toMatchObject({ status: 'delivered', contract: { outcome: 'accepted' } });
  });

  it.runIf(process.env.TRIBUTARY_TEST_LONG)(
    'rejected events were counted twice when processes were killed while two replays evaluated them',
    async () => {
      const terms = (mode: string) => ({
        name: 'scans',
        event_type: 'track',
        event_name: 'Scanned',
        enforcement_mode: mode,
        schema_definition: { properties: { code: { type: 'string', required: true } } },
      });
      const made = await tributary.owner.post<{ id: string }>('./event-contracts', terms('block'));
      const batch = Array.from({ length: 1_500 }, (_, n) => ({
        type: 'track',
        event: 'Scanned',
        user_id: `u${n % 50}`,
        message_id: `k-${n}`,
      }));
      await tributary.producer.post('./events/batch', { batch });
      const last = () => tributary.owner.get<Trace>('./events/k-1499').catch(() => undefined);
      await eventually(last, (way) => way?.status === 'rejected');
      await tributary.owner.put(`./event-contracts/${made.id}`, terms('warn'));
      const asked = { since, outcome: 'rejected', contract_id: made.id, events_per_second: 200 };
      const runs = [
        await tributary.owner.post<Replay>('./replays', asked),
        await tributary.owner.post<Replay>('./replays', asked),
      ];
      for (let kill = 0; kill < 5; kill++) {
        await new Promise((resolve) => setTimeout(resolve, 500 + Math.random() * 1_000));
        await tributary.kill();
        tributary = await startTributary({ folder: tributary.folder });
      }
      for (const { id } of runs)
        expect(await ended(id)).toMatchObject({ status: 'finished', progress: { events: 1_500 } });
      const ids = () =>
        webhook.deliveries().flatMap(({ id, event }) => (event.message_id.startsWith('k-') ? [id] : []));
      await eventually(
        () => new Set(ids()).size,
        (count) => count === 1_500,
      );
      const counted = async () =>
        (await tributary.owner.get<readonly Volume[]>('./event-volume'))
          .filter(({ event_name }) => event_name === 'Scanned')
          .reduce((sum, { event_count }) => sum + event_count, 0);
      await eventually(counted, (count) => count >= 1_500);
      // Time for the slow queue to drain the second replay.
      const { id } = await tributary.owner.post<Replay>('./replays', asked);
      await ended(id);
      expect(await counted()).toBe(1_500);
      expect(new Set(ids()).size).toBe(1_500);
    },
    300_000,
  );

  it('a replay can be cancelled, and is refused for an invalid time or rule', async () => {
    const { id } = await tributary.owner.post<Replay>('./replays', { since, events_per_second: 1 });
    expect(await tributary.owner.post(`./replays/${id}/cancel`)).toMatchObject({ status: 'cancelled' });
    expect((await ended(id)).progress.share).toBeLessThan(1);
    expect(await tributary.owner.post(`./replays/${id}/cancel`)).toMatchObject({ status: 'cancelled' });
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    for (const bad of [
      {},
      { since: 'yesterday' },
      { since, until: tomorrow },
      { since: tomorrow },
      { since, rule_id: '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01' },
      { since, events_per_second: 0 },
      { since, event_names: Array.from({ length: 21 }, (_, n) => `name ${n}`) },
      { since, event_names: ['x'.repeat(201)] },
      { since, outcome: 'warned' },
      { since, outcome: 'rejected', rule_id: ruleId },
      { since, outcome: 'rejected', new_ids: true },
      { since, contract_id: ruleId },
      { since, source_id: ruleId },
    ])
      expect((await tributary.owner.call('POST', './replays', bad)).status).toBe(400);
  });
});
