import {
  type CanonicalEvent,
  type DeliveryOutcome,
  HEADER,
  readDeliveryReference,
  receivedTopic,
  retryTopic,
  TOPIC,
} from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { entriesIn, entriesOf } from '../../helpers/log-of.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const HOUR_MS = 3_600_000;
const KILLS = process.env.TRIBUTARY_TEST_LONG === undefined ? 2 : 10;
const EVENTS = 60;

/** The processors begin so much later, by their clock. */
const LATER = new URL('./later-clock.ts', import.meta.url).href;

const ENV = {
  TRIBUTARY_RETRY_SCHEDULE: '200ms,400ms',
  TRIBUTARY_RETRY_EXPIRY: '2s',
  TRIBUTARY_DELIVERY_TIMEOUT: '1s',
};

const TRANSFORMATION = `function transform(event) {
  if (event.properties.n % 10 === 3) return null;
  if (event.properties.n % 10 === 7) throw new Error('unlucky');
  return event;
}`;

const EXAMPLE = {
  message_id: 'example',
  type: 'track',
  event: 'Left',
  user_id: 'u',
  properties: { n: 5 },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:00.000Z',
  environment: 'production',
  workspace_id: '00000000-0000-4000-8000-000000000000',
};

/** The numbers of the funnel are those of the topics, whatever happens to the processes. */
describe('The funnel', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let plain: string;
  let changed: string;
  beforeAll(async () => {
    tributary = await startTributary({ env: ENV });
    webhook = await startWebhook();
    // Some are refused, and some taken at the second attempt.
    const seen = new Map<string, number>();
    webhook.behave(({ body }, response) => {
      const times = (seen.get(body.id) ?? 0) + 1;
      seen.set(body.id, times);
      const n = Number(Object(body.event.properties).n);
      const refused = n % 10 === 1 && !healed;
      response.writeHead(refused ? 422 : n % 10 === 2 && times < 2 ? 503 : 204).end();
    });
    const destination = await make('destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    const transformation = await make('event-transformations', {
      name: 't',
      source_code: TRANSFORMATION,
      test_input: EXAMPLE,
      test_output: EXAMPLE,
    });
    plain = await make('event-forwarding-rules', {
      name: 'plain',
      destination_id: destination,
      event_names: ['Paid'],
    });
    changed = await make('event-forwarding-rules', {
      name: 'changed',
      destination_id: destination,
      transformation_id: transformation,
      filter: 'event.properties.n >= 5',
    });
    await make('event-contracts', {
      name: 'paid',
      event_type: 'track',
      event_name: 'Paid',
      enforcement_mode: 'block',
      schema_definition: { properties: { n: { type: 'number' } }, required: ['n'] },
    });
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  let healed = false;
  const make = async (resource: string, body: object) =>
    (await tributary.owner.post<{ id: string }>(`./${resource}`, body)).id;
  const events = (round: string, count = EVENTS) =>
    Array.from({ length: count }, (_, n) => ({
      type: 'track',
      event: n % 2 === 0 ? 'Paid' : 'Left',
      user_id: `u${n % 7}`,
      message_id: `${round}-${n}`,
      properties: n % 20 === 4 ? { n: 'four' } : { n },
    }));
  const send = (batch: readonly object[]) => tributary.producer.post('./events/batch', { batch });
  const restart = async (env: Readonly<Record<string, string>> = {}) => {
    await tributary.kill();
    tributary = await startTributary({ env: { ...ENV, ...env }, folder: tributary.folder });
  };

  /** The totals once nothing is under way; they are those of the topics. */
  const settledTotals = async (): Promise<Totals> => {
    await drained(tributary, 60_000);
    // Deliveries that wait in retry topics are no lag.
    const found = await eventually(
      async () => {
        const totals = await funnelTotals(tributary);
        return { totals, topics: await totalsInTopics(tributary) };
      },
      ({ totals, topics }) => isWithin(topics, totals),
      60_000,
    );
    expect(found.totals).toMatchObject(found.topics);
    expect(await acceptedByName(tributary)).toEqual(await acceptedInTopic(tributary));
    return found.totals;
  };

  it('equals the topics after repeated SIGKILL of every process', { timeout: 300_000 }, async () => {
    for (let kill = 0; kill < KILLS; kill++) {
      await send(events(`k${kill}`));
      // The same again: duplicates.
      await send(events(`k${kill}`, 10));
      await new Promise((resolve) => setTimeout(resolve, 150 * kill));
      await restart();
    }
    const totals = await settledTotals();
    const sent = KILLS * (EVENTS + 10);
    expect(totals).toMatchObject({ received: sent, duplicate: KILLS * 10 });
    checkSums(
      totals,
      await funnelTotals(tributary, `&rule=${plain}`),
      await funnelTotals(tributary, `&rule=${changed}`),
    );
  });

  it('equals the topics after redrives and replays', { timeout: 300_000 }, async () => {
    healed = true;
    const before = await settledTotals();
    expect(before['dead/destination']).toBeGreaterThan(0);
    await tributary.owner.call('POST', './deliveries/redrive', { status: 'dead' });
    const since = new Date(Date.now() - HOUR_MS).toISOString();
    const { id } = await tributary.owner.post<{ id: string }>('./replays', { since, events_per_second: 400 });
    await eventually(
      () => tributary.owner.get<{ status: string }>(`./replays/${id}`),
      ({ status }) => status === 'finished',
      60_000,
    );
    const totals = await settledTotals();
    expect(totals.received).toBe(before.received);
    expect(totals['redriven/delivery']).toBe(deadInDeliver(before));
    expect(totals.replayed).toBeGreaterThan(0);
    checkSums(totals);
  });

  it('equals the topics after the processors were stopped for an hour', { timeout: 300_000 }, async () => {
    const before = await settledTotals();
    const batch = events('late');
    await send(batch);
    await restart({ NODE_OPTIONS: `--import=${LATER}`, TEST_LATER_MS: String(HOUR_MS) });
    await send(events('later'));
    const totals = await settledTotals();
    expect((totals.received ?? 0) - (before.received ?? 0)).toBe(2 * EVENTS);
    checkSums(totals);
  });

  it('finds the events behind a number', async () => {
    const from = new Date(Date.now() - 6 * HOUR_MS).toISOString();
    const query = `measure=rejected&from=${from}&name=Paid`;
    const { message_ids } = await tributary.owner.get<{ message_ids: readonly string[] }>(
      `./funnel/samples?${query}`,
    );
    expect(message_ids).toHaveLength(10);
    const [first = ''] = message_ids;
    const trace = await tributary.owner.get<{ status: string }>(`./events/${first}`);
    expect(trace.status).toBe('rejected');
  });
});

/** The sums that docs/reference/funnel-numbers.md states; `ofRules` are the totals of single rules without a replay. */
function checkSums(totals: Totals, ...ofRules: readonly Totals[]): void {
  const sum = (counts: Totals, ...measures: readonly string[]) =>
    measures.reduce((total, measure) => total + (counts[measure] ?? 0), 0);
  expect(sum(totals, 'received', 'reevaluated')).toBe(sum(totals, 'duplicate', 'rejected', 'accepted'));
  expect(sum(totals, 'matched', 'replayed', 'redriven/rule')).toBe(
    sum(totals, 'passed', 'transformed', 'dropped', 'failed'),
  );
  expect(sum(totals, 'created', 'redriven/delivery')).toBe(
    sum(totals, 'delivered_first', 'delivered_later') + deadInDeliver(totals),
  );
  for (const rule of ofRules) expect(sum(rule, 'matched', 'filtered')).toBe(totals.accepted);
}

/** Deliveries that became dead after they had been created. */
function deadInDeliver(totals: Totals): number {
  return (totals.dead ?? 0) - (totals['dead/transformation'] ?? 0);
}

/** Whether all of these totals are among the others. */
function isWithin(some: Totals, all: Totals): boolean {
  return Object.entries(some).every(([measure, count]) => all[measure] === count);
}

/** The numbers of the funnel that the topics tell: counts by measure, and those with a reason as `<measure>/<reason>`. */
type Totals = Readonly<Record<string, number>>;

interface Counts {
  readonly reasons?: readonly { readonly measure: string; readonly reason: string; readonly count: number }[];
}

interface FunnelAnswer {
  readonly totals: Counts;
  readonly groups?: readonly { readonly group: { readonly name?: string }; readonly totals: Counts }[];
}

/** The totals of a workspace as the API answers them, over the last hours. */
async function funnelTotals(tributary: Tributary, query = ''): Promise<Totals> {
  const { totals } = await readFunnel(tributary, query);
  return flat(totals);
}

/** The accepted events by name. */
async function acceptedByName(tributary: Tributary): Promise<Totals> {
  const { groups = [] } = await readFunnel(tributary, '&group_by=name');
  return Object.fromEntries(
    groups.flatMap(({ group, totals }) => {
      const { accepted } = flat(totals);
      return accepted === undefined ? [] : [[group.name ?? '', accepted]];
    }),
  );
}

function readFunnel({ owner }: Tributary, query: string): Promise<FunnelAnswer> {
  // The clock of a server may be ahead.
  const from = new Date(Date.now() - 6 * 3_600_000).toISOString();
  const to = new Date(Date.now() + 6 * 3_600_000).toISOString();
  return owner.get<FunnelAnswer>(`./funnel?from=${from}&to=${to}&interval=hour${query}`);
}

function flat({ reasons = [], ...counts }: Counts): Totals {
  const found: Record<string, number> = {};
  for (const [measure, count] of Object.entries(counts))
    if (typeof count === 'number') found[measure] = count;
  for (const { measure, reason, count } of reasons) found[`${measure}/${reason}`] = count;
  return found;
}

/** Causes that route makes dead deliveries for; the others are those of the stages that deliver. */
const CAUSES_OF_ROUTE: readonly (string | undefined)[] = [
  'transformation',
  'filter_failed',
  'filter_not_evaluated',
];

/**
 * The same totals by a read of the topics, of everything that is no transformation or mismatch of a rule: these leave no
 * record. Of a pipeline without a lag.
 */
async function totalsInTopics(tributary: Tributary): Promise<Totals> {
  const sums = new Map<string, number>();
  const add = (measure: string, count = 1) => void sums.set(measure, (sums.get(measure) ?? 0) + count);
  for (const environment of ['production', 'development'] as const)
    add('received', (await entriesOf(tributary, receivedTopic(environment))).length);
  const accepted = await entriesOf(tributary, TOPIC.accepted);
  for (const { headers } of accepted) {
    add('accepted');
    if (headers[HEADER.reevaluatedBy] !== undefined) add('reevaluated');
    if (headers[HEADER.outcome] !== 'accepted') add(`warned/${headers[HEADER.outcome]}`);
    if (headers[HEADER.outcome] !== 'accepted') add('warned');
  }
  add('rejected', (await entriesOf(tributary, TOPIC.rejected)).length);
  add(
    'duplicate',
    countOf(sums, 'received') +
      countOf(sums, 'reevaluated') -
      countOf(sums, 'accepted') -
      countOf(sums, 'rejected'),
  );

  let started = 0;
  for (const { headers } of await entriesOf(tributary, TOPIC.deliveries)) {
    started += 1;
    if (headers[HEADER.redriveOf] === undefined) add('created');
    else add('redriven/delivery');
  }
  for (const { value } of await entriesOf(tributary, TOPIC.outcomes)) {
    const { status, reason } = JSON.parse(value) as DeliveryOutcome;
    if (status === 'delivered' && reason === undefined) add('delivered_later');
    if (status === 'unwanted') add('unwanted');
  }
  // A record that waits several times is the same each time.
  const retries = await entriesIn(tributary, (topic) => topic.startsWith(retryTopic('')));
  const waits = new Map(retries.map(({ key, value }) => [`${key} ${value}`, readDeliveryReference(value)]));
  for (const reference of waits.values()) if (reference?.next_ms !== undefined) add('retried');
  let deadInDeliver = 0;
  for (const { value } of await entriesOf(tributary, TOPIC.deliveriesDead)) {
    const { cause } = JSON.parse(value) as DeliveryOutcome;
    add('dead');
    add(`dead/${cause}`);
    if (!CAUSES_OF_ROUTE.includes(cause)) deadInDeliver += 1;
  }
  const notFirst = countOf(sums, 'delivered_later') + countOf(sums, 'unwanted') + deadInDeliver;
  add('delivered_first', started - notFirst);
  return Object.fromEntries([...sums].filter(([, count]) => count > 0));
}

function countOf(sums: ReadonlyMap<string, number>, measure: string): number {
  return sums.get(measure) ?? 0;
}

/** The accepted events by name, by a read of their topic. */
async function acceptedInTopic(tributary: Tributary): Promise<Totals> {
  const found: Record<string, number> = {};
  for (const { value } of await entriesOf(tributary, TOPIC.accepted)) {
    const { event, name } = JSON.parse(value) as CanonicalEvent;
    const text = event ?? name ?? '';
    found[text] = (found[text] ?? 0) + 1;
  }
  return found;
}
