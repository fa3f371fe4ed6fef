import { nameId } from '@tributary/core';
import { type Expectation, expectationOf, type RuleName } from './expectation.ts';
import type { SentEvent } from './traffic.ts';

/** A record of `events.accepted` or `events.rejected`, as read by a consumer of committed records. */
export interface EventRecord {
  readonly partition: number;
  readonly offset: number;
  readonly messageId: string;
  readonly outcome: string;
  /** Start of the hour of `received_at`, ISO 8601. */
  readonly hour: string;
  /** JSON of `properties` or `traits`. */
  readonly subject: string;
}

export interface ViolationRecord {
  readonly id: string;
  readonly messageId: string;
  readonly kind: string;
  readonly path: string;
  readonly action: string;
}

export interface DeliveryRecord {
  readonly id: string;
  readonly messageId: string;
  readonly ruleId: string;
}

export interface VolumeCell {
  readonly type: string;
  readonly name: string;
  readonly hour: string;
  readonly count: number;
}

/** Totals of the funnel by measure; absent: 0. */
export type FunnelTotals = Readonly<Record<string, number>>;

/** Everything visible from outside once the pipeline is drained. */
export interface Evidence {
  readonly accepted: readonly EventRecord[];
  readonly rejected: readonly EventRecord[];
  readonly violations: readonly ViolationRecord[];
  /** As listed by the API. */
  readonly listedViolations: readonly ViolationRecord[];
  readonly volume: readonly VolumeCell[];
  readonly funnel: FunnelTotals;
  readonly deliveries: readonly DeliveryRecord[];
  /** Ids of the deliveries that arrived, by rule. */
  readonly arrived: Readonly<Record<RuleName, ReadonlySet<string>>>;
}

/** A figure with its required value, and the explanation when they differ. */
export interface Finding {
  readonly what: string;
  readonly answer: number;
  readonly expected: number;
  /** Some of the faults, for people. Any fault fails the run, even when the figures agree. */
  readonly faults: readonly string[];
}

/** The number of faults of one kind that are reported. */
const TOLD = 5;

/**
 * Checks the evidence against the events sent and confirmed. `ruleIds` are those of this run; `earlier` the numbers of
 * partitions before topics were grown: subjects move from a partition to one that was added.
 */
export function verify(
  confirmed: readonly SentEvent[],
  evidence: Evidence,
  ruleIds: Readonly<Record<RuleName, string>>,
  earlier: readonly number[] = [],
): readonly Finding[] {
  const sent = new Map(
    confirmed.map((each) => [each.event.message_id, { ...each, expectation: expectationOf(each.event) }]),
  );
  return [
    ...verifyOnce(sent, evidence),
    verifyOrder('accepted', sent, evidence.accepted, earlier),
    verifyOrder('rejected', sent, evidence.rejected, earlier),
    verifyVolume(sent, evidence),
    ...verifyFunnel(evidence),
    verifyViolations('violations on the topic', sent, evidence.violations),
    verifyViolations('violations the API lists', sent, evidence.listedViolations),
    ...Object.entries(ruleIds).flatMap(([rule, ruleId]) =>
      verifyDeliveries(rule as RuleName, ruleId, sent, evidence),
    ),
    verifyRules(evidence, new Set(Object.values(ruleIds))),
  ];
}

export function agrees({ answer, expected, faults }: Finding): boolean {
  return answer === expected && faults.length === 0;
}

type Sent = ReadonlyMap<string, SentEvent & { readonly expectation: Expectation }>;

function verifyOnce(sent: Sent, { accepted, rejected }: Evidence): readonly Finding[] {
  const judged = countBy([...accepted, ...rejected], ({ messageId }) => messageId);
  const faults = [...sent.keys()].flatMap((id) => {
    const times = judged.get(id) ?? 0;
    return times === 1 ? [] : [`${id} is there ${times} times`];
  });
  const strangers = [...judged.keys()].filter((id) => !sent.has(id));
  const wrong = [...accepted, ...rejected].flatMap((record) => differences(sent, record));
  const misplaced = [
    ...accepted.filter(({ messageId }) => sent.get(messageId)?.expectation.outcome === 'rejected'),
    ...rejected.filter(({ messageId }) => sent.get(messageId)?.expectation.outcome !== 'rejected'),
  ].map(({ messageId }) => `${messageId} is on the wrong topic`);
  return [
    finding('confirmed events in accepted or rejected once', sent.size - faults.length, sent.size, faults),
    finding('records of accepted and rejected', accepted.length + rejected.length, sent.size, []),
    finding('of those never sent', strangers.length, 0, strangers),
    finding('of those not as the contracts say', wrong.length + misplaced.length, 0, [
      ...wrong,
      ...misplaced,
    ]),
  ];
}

function differences(sent: Sent, { messageId, outcome, subject }: EventRecord): readonly string[] {
  const expectation = sent.get(messageId)?.expectation;
  if (expectation === undefined) return [];
  const faults: string[] = [];
  if (outcome !== expectation.outcome)
    faults.push(`${messageId} is ${outcome} and not ${expectation.outcome}`);
  if (subject !== JSON.stringify(expectation.subject)) faults.push(`${messageId} holds ${subject}`);
  return faults;
}

/**
 * Finds records of a subject in reverse order of sending, and subjects in two partitions. A partition that was added has
 * a larger number than the one that a subject moves from.
 */
function verifyOrder(
  topic: string,
  sent: Sent,
  records: readonly EventRecord[],
  earlier: readonly number[],
): Finding {
  const last = new Map<string, { partition: number; sequence: number; messageId: string }>();
  const faults: string[] = [];
  let inOrder = 0;
  for (const { partition, messageId } of records.toSorted(byPosition)) {
    const event = sent.get(messageId);
    if (event === undefined) continue; // reported as never sent
    const before = last.get(event.subject);
    const from = before?.partition ?? partition;
    if (before !== undefined && from !== partition && !earlier.some((count) => partition % count === from))
      faults.push(`${event.subject} is in ${before.partition} and ${partition}`);
    else if (before !== undefined && before.sequence >= event.sequence)
      faults.push(`${messageId} (${event.sequence}) comes after ${before.messageId} (${before.sequence})`);
    else inOrder++;
    last.set(event.subject, { partition, sequence: event.sequence, messageId });
  }
  return finding(`events in order per subject, ${topic}`, inOrder, records.length, faults);
}

function byPosition(a: EventRecord, b: EventRecord): number {
  return a.partition - b.partition || a.offset - b.offset;
}

/**
 * The hours are those of the accepted records: only the log shows which of several copies of an event won.
 */
function verifyVolume(sent: Sent, { accepted, volume }: Evidence): Finding {
  const expected = new Map<string, number>();
  const hours = new Map(accepted.map(({ messageId, hour }) => [messageId, hour]));
  let events = 0;
  for (const [id, { event, expectation }] of sent) {
    if (expectation.outcome === 'rejected') continue;
    events++;
    const cell = `${event.type} "${event.event ?? ''}" ${hours.get(id) ?? 'never'}`;
    expected.set(cell, (expected.get(cell) ?? 0) + 1);
  }
  const counted = new Map(volume.map(({ type, name, hour, count }) => [`${type} "${name}" ${hour}`, count]));
  const cells = new Set([...expected.keys(), ...counted.keys()]);
  const faults = [...cells].flatMap((cell) => {
    const [answer, wanted] = [counted.get(cell) ?? 0, expected.get(cell) ?? 0];
    return answer === wanted ? [] : [`${cell}: ${answer} and not ${wanted}`];
  });
  const answer = volume.reduce((sum, { count }) => sum + count, 0);
  return finding('events counted, by type, name and hour', answer, events, faults);
}

/** Compares the totals of the funnel with the topics, and with each other. */
function verifyFunnel({ accepted, rejected, deliveries, funnel }: Evidence): readonly Finding[] {
  const sum = (...measures: readonly string[]) =>
    measures.reduce((total, measure) => total + (funnel[measure] ?? 0), 0);
  return [
    finding('funnel: accepted', sum('accepted'), accepted.length, []),
    finding('funnel: rejected', sum('rejected'), rejected.length, []),
    finding(
      'funnel: received is duplicate, rejected and accepted',
      sum('received'),
      sum('duplicate', 'rejected', 'accepted'),
      [],
    ),
    finding('funnel: created', sum('created'), deliveries.length, []),
    finding(
      'funnel: delivered or dead',
      sum('delivered_first', 'delivered_later', 'unwanted', 'dead'),
      deliveries.length,
      [],
    ),
  ];
}

function verifyViolations(what: string, sent: Sent, records: readonly ViolationRecord[]): Finding {
  const expected = new Set(
    [...sent].flatMap(([messageId, { expectation }]) =>
      expectation.violations.map((violation) => nameOf({ messageId, ...violation })),
    ),
  );
  const found = countBy(records, nameOf);
  const ids = new Set(records.map(({ id }) => id));
  const faults = [
    ...timesOtherThanOnce(expected, found),
    ...(ids.size === records.length ? [] : [`${records.length - ids.size} ids are there more than once`]),
  ];
  return finding(what, records.length, expected.size, faults);
}

function nameOf(violation: Omit<ViolationRecord, 'id'>): string {
  const { messageId, kind, path, action } = violation;
  return `${messageId} ${kind} ${path} ${action}`;
}

function verifyDeliveries(
  rule: RuleName,
  ruleId: string,
  sent: Sent,
  { deliveries, arrived }: Evidence,
): readonly Finding[] {
  const expected = new Set(
    [...sent]
      .filter(([, { expectation }]) => expectation.deliveries.includes(rule))
      .map(([messageId]) => deliveryId(ruleId, messageId)),
  );
  const records = deliveries.filter((delivery) => delivery.ruleId === ruleId);
  const unstable = records
    .filter(({ id, messageId }) => id !== deliveryId(ruleId, messageId))
    .map(({ id, messageId }) => `${messageId} has the id ${id}`);
  const found = countBy(records, ({ id }) => id);
  const came = new Map([...arrived[rule]].map((id) => [id, 1]));
  return [
    finding(`deliveries, ${rule}`, records.length, expected.size, [
      ...timesOtherThanOnce(expected, found),
      ...unstable,
    ]),
    finding(`arrived, ${rule}`, came.size, expected.size, timesOtherThanOnce(expected, came)),
  ];
}

/** The idempotency key that the design specifies for the only output of an event. */
export function deliveryId(ruleId: string, messageId: string): string {
  return nameId(ruleId, `production:${messageId}:0`);
}

function verifyRules({ deliveries }: Evidence, ruleIds: ReadonlySet<string>): Finding {
  const strange = deliveries.filter(({ ruleId }) => !ruleIds.has(ruleId)).map(({ id }) => id);
  return finding('deliveries of no rule', strange.length, 0, strange);
}

function timesOtherThanOnce(
  expected: ReadonlySet<string>,
  found: ReadonlyMap<string, number>,
): readonly string[] {
  const missing = [...expected].filter((name) => !found.has(name)).map((name) => `${name} is missing`);
  const twice = [...found].filter(([, times]) => times > 1).map(([name, n]) => `${name} is there ${n} times`);
  const strange = [...found.keys()].filter((name) => !expected.has(name)).map((name) => `${name} is strange`);
  return [...missing, ...twice, ...strange];
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1);
  return counts;
}

function finding(what: string, answer: number, expected: number, faults: readonly string[]): Finding {
  const more = faults.length > TOLD ? [`... ${faults.length - TOLD} more`] : [];
  return { what, answer, expected, faults: [...faults.slice(0, TOLD), ...more] };
}
