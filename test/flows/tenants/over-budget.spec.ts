import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const RULES = 60;
const BUDGET = 3 * 2 ** 20;
const FIELDS = 40;

interface Storage {
  readonly state: string;
  readonly over: string | null;
  readonly received: number;
  readonly bytes_per_hour: { readonly used: number; readonly limit: number };
}

interface Dead {
  readonly id: string;
  readonly cause: string;
  readonly message_id: string;
}

/** A workspace whose events turn into much more than they are is stopped by its budget; its neighbour notices nothing. */
describe('A workspace that amplifies its events', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let refusing: Webhook;
  beforeAll(async () => {
    tributary = await startTributary({
      env: { TRIBUTARY_WORKSPACE_BYTES_PER_HOUR: `${BUDGET / 2 ** 20}MiB`, TRIBUTARY_CHANGE_RATE: '1000' },
    });
    webhook = await startWebhook();
    refusing = await startWebhook((_call, response) => void response.writeHead(503).end());
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
    await refusing.close();
  });

  async function producerOf(owner: Client): Promise<Client> {
    const { key } = await owner.post<{ key: string }>('./event-keys', {
      name: 'k',
      environment: 'production',
    });
    return owner.with({ token: key });
  }

  it('filled the disk of all: it is refused with the name of the budget, and the other goes on', {
    timeout: 240_000,
  }, async () => {
    const { owner } = tributary;
    const { id: other } = await owner.post<{ id: string }>('/workspaces', { name: 'Neighbour' });
    const neighbour = owner.with({ workspaceId: other });
    const [noisy, quiet] = [await producerOf(owner), await producerOf(neighbour)];
    const place = (of: Client, url: string) =>
      of.post<{ id: string }>('./destinations', { name: url, type: 'webhook', settings: { url } });
    const dead = await place(owner, refusing.url);
    for (let rule = 0; rule < RULES; rule++)
      await owner.post('./event-forwarding-rules', { name: `r${rule}`, destination_id: dead.id });
    const names = Array.from({ length: FIELDS }, (_, n) => `f${n}`);
    await owner.post('./event-contracts', {
      name: 'strict',
      event_type: 'track',
      event_name: 'Paid',
      enforcement_mode: 'warn',
      schema_definition: {
        type: 'object',
        properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
      },
    });
    const well = await place(neighbour, webhook.url);
    await neighbour.post('./event-forwarding-rules', { name: 'all', destination_id: well.id });

    const properties = Object.fromEntries(names.map((name, n) => [name, n]));
    const event = (n: number) => ({ event: 'Paid', user_id: `u${n}`, properties });
    let sent = 0;
    let refused: { readonly status: number; readonly body: unknown } | undefined;
    const deadline = Date.now() + 90_000;
    while (refused === undefined && Date.now() < deadline) {
      const answer = await noisy.call('POST', './events/track', event(sent));
      if (answer.status === 202) sent++;
      else refused = answer;
      if (sent % 10 === 0) await quiet.post('./events/track', { event: 'Read', user_id: `q${sent}` });
    }
    expect(refused?.status).toBe(429);
    expect(refused?.body).toMatchObject({
      error: 'storage budget exceeded',
      quota: 'bytes_per_hour',
      limit: BUDGET,
    });

    // What the stages wrote ends soon after the budget, whatever was sent before.
    const storage = () => owner.get<Storage>('./storage');
    const before = await eventually(storage, ({ state, received }) => state === 'refuse' && received > 0);
    expect(before).toMatchObject({ over: 'bytes_per_hour' });
    const cause = './deliveries?status=dead&cause=over_budget&limit=1000';
    const stopped = await eventually(
      () => owner.get<readonly Dead[]>(cause),
      (found) => found.length > 0,
    );
    expect(new Set(stopped.map(({ message_id }) => message_id)).size).toBe(stopped.length);
    const [one] = stopped;
    const trace = await eventually(
      () =>
        owner.get<{ status: string; rules: readonly { because: string | null }[] }>(
          `./events/${one?.message_id}`,
        ),
      ({ status }) => status === 'dead',
      60_000,
    );
    expect(trace.rules.every(({ because }) => because === 'over_budget')).toBe(true);

    // The neighbour is accepted and delivered, and nothing of it is refused.
    const { message_id } = await quiet.post<{ message_id: string }>('./events/track', {
      event: 'Read',
      user_id: 'last',
    });
    await eventually(
      async () => webhook.deliveries().some((delivery) => delivery.event.message_id === message_id),
      (arrived) => arrived,
      60_000,
    );
    expect(await neighbour.get<Storage>('./storage')).toMatchObject({ state: 'ok', over: null });

    // Deliveries that the budget refused cannot be redriven now, but they can be discarded.
    const body = { cause: 'over_budget' };
    expect((await owner.call('POST', './deliveries/redrive', body)).status).toBe(429);
    expect((await owner.call('POST', './deliveries/discard', body)).status).toBe(202);
  });
});
