import {
  type CanonicalEvent,
  type DeliveryOutcome,
  HEADER,
  readDeliveryReference,
  receivedTopic,
  retryTopic,
  TOPIC,
} from '@tributary/core';
import { entriesIn, entriesOf } from './log-of.ts';
import type { Tributary } from './running-tributary.ts';

/** The numbers of the funnel that the topics tell: counts by measure, and those with a reason as `<measure>/<reason>`. */
export type Totals = Readonly<Record<string, number>>;

interface Counts {
  readonly reasons?: readonly { readonly measure: string; readonly reason: string; readonly count: number }[];
}

interface FunnelAnswer {
  readonly totals: Counts;
  readonly groups?: readonly { readonly group: { readonly name?: string }; readonly totals: Counts }[];
}

/** The totals of a workspace as the API answers them, over the last hours. */
export async function funnelTotals(tributary: Tributary, query = ''): Promise<Totals> {
  const { totals } = await readFunnel(tributary, query);
  return flat(totals);
}

/** The accepted events by name. */
export async function acceptedByName(tributary: Tributary): Promise<Totals> {
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
export async function totalsInTopics(tributary: Tributary): Promise<Totals> {
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
export async function acceptedInTopic(tributary: Tributary): Promise<Totals> {
  const found: Record<string, number> = {};
  for (const { value } of await entriesOf(tributary, TOPIC.accepted)) {
    const { event, name } = JSON.parse(value) as CanonicalEvent;
    const text = event ?? name ?? '';
    found[text] = (found[text] ?? 0) + 1;
  }
  return found;
}
