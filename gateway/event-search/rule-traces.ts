import {
  type CanonicalEvent,
  type CatalogView,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  type DeliveryTrace,
  defined,
  deliveryId,
  deliveryKey,
  destinationMismatch,
  FilterBudget,
  HASHED_SUBJECT,
  HEADER,
  type History,
  hasEvent,
  isNotice,
  type LogEntry,
  MATCH,
  type Mismatch,
  mismatchOf,
  organizationOf,
  outcomeOfEntry,
  partitionOf,
  partitionsOfKey,
  type Rule,
  type RuleTrace,
  readDeliveryEntry,
  readDeliveryReference,
  readOutcome,
  recordsOutcome,
  referencedOutcome,
  retryTopic,
  subjectOfRules,
  TOPIC,
  type TraceStage,
  type TransformationResult,
} from '@tributary/core';
import { TENANT_TURNS } from '../limits/turns.ts';
import { CLOCK_SKEW_MS, isEntryOf, type LogScan, type ScanEnd } from './log-scan.ts';

/** An accepted event, as route reads it. */
interface AcceptedEvent {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
}

interface RuleSources extends DeliverySources {
  readonly state: CatalogView;
}

/** Traces an event that route has consumed at every rule of its workspace, newest rule first. */
export async function traceRules(
  scan: LogScan,
  sources: RuleSources,
  accepted: AcceptedEvent,
): Promise<readonly RuleTrace[]> {
  const { state } = sources;
  const { event } = accepted;
  const owner = organizationOf(state, event.workspace_id);
  const matches = await TENANT_TURNS.runSteps(owner, matchesOf(state, event));
  const evaluated = state
    .entities('rule', event.workspace_id)
    .map((rule) => evaluateRule(rule, state, accepted, matches));
  const candidates = evaluated.filter(({ mayHaveDeliveries }) => mayHaveDeliveries);
  const direct = await deliveriesOf(scan, accepted, candidates, false);
  const missing = candidates.filter(({ rule }) => !direct.byId.has(deliveryId(rule.id, event, 0)));
  const slow = missing.length > 0 ? await slowQueueOf(scan, accepted) : NOT_IN_SLOW_QUEUE;
  const fromSlowQueue = missing.filter(({ rule }) => names(slow.passed, rule));
  const found = merged(direct, await deliveriesOf(scan, accepted, fromSlowQueue, true));
  const traces = await Promise.all(
    evaluated.map(async ({ rule, mayHaveDeliveries, mayBeChanged, trace }) => {
      if (!mayHaveDeliveries) return { ...trace, transformation: 'unknown' as const, deliveries: [] };
      const outcome = await outcomeOfRule(scan, sources, accepted, rule, found, slow);
      const corrected = { ...trace, ...outcome.trace };
      return mayBeChanged ? correctedByDeliveries(corrected, outcome.complete) : corrected;
    }),
  );
  return withOverBudget(traces);
}

/** One rule has the dead delivery of an event whose workspace was over a budget; the other rules were not applied. */
function withOverBudget(traces: readonly RuleTrace[]): readonly RuleTrace[] {
  if (!traces.some(({ deliveries }) => causeBefore(deliveries) === 'over_budget')) return traces;
  return traces.map((trace) =>
    trace.mismatch === undefined &&
    trace.stage === undefined &&
    (trace.deliveries.length === 0 || causeBefore(trace.deliveries) === 'over_budget')
      ? { ...trace, transformation: 'unknown', mismatch: { because: 'over_budget' } }
      : trace,
  );
}

interface EvaluatedRule {
  readonly rule: Rule;
  /** The rule matches, or matched in an earlier version. */
  readonly mayHaveDeliveries: boolean;
  /** The rule or its destination was changed after the event was accepted, as far as clocks that differ can tell. */
  readonly mayBeChanged: boolean;
  readonly trace: Omit<RuleTrace, 'transformation' | 'deliveries'>;
}

interface Matches {
  /** Of the enabled rules. */
  readonly mismatches: ReadonlyMap<string, Mismatch | undefined>;
  /** The dead delivery of this rule stands for all rules whose filters were not evaluated. */
  readonly firstNotEvaluated: string | undefined;
}

/** Matches rules as route does, a rule a step: a filter that is new to this process is compiled first. */
function* matchesOf(state: CatalogView, event: CanonicalEvent): Generator<undefined, Matches> {
  const budget = new FilterBudget(organizationOf(state, event.workspace_id));
  const subject = subjectOfRules(event);
  const mismatches = new Map<string, Mismatch | undefined>();
  let firstNotEvaluated: string | undefined;
  for (const rule of state.enabledRules(event.workspace_id)) {
    yield;
    const mismatch = mismatchOf(rule, subject, budget);
    mismatches.set(rule.id, mismatch);
    if (mismatch?.because !== 'filter_not_evaluated') continue;
    const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
    if (destinationMismatch(destination, event) === undefined) firstNotEvaluated ??= rule.id;
  }
  return { mismatches, firstNotEvaluated };
}

function evaluateRule(
  rule: Rule,
  state: CatalogView,
  { entry, event }: AcceptedEvent,
  matches: Matches,
): EvaluatedRule {
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  const closed = destinationMismatch(destination, event);
  const ofRule = matches.mismatches.has(rule.id)
    ? matches.mismatches.get(rule.id)
    : mismatchOf(rule, subjectOfRules(event));
  const mismatch = ofRule ?? closed;
  const changedSince = (time: number) =>
    [rule, destination].some((one) => one !== undefined && Date.parse(one.updated_at) > time);
  const mayBeChanged = changedSince(entry.timestamp - CLOCK_SKEW_MS);
  const isDead = mismatch?.because === 'filter_failed' || rule.id === matches.firstNotEvaluated;
  const existed = Date.parse(rule.created_at) <= entry.timestamp + CLOCK_SKEW_MS;
  return {
    rule,
    mayHaveDeliveries: existed && (mismatch === undefined || mayBeChanged || isDead),
    mayBeChanged,
    trace: {
      rule_id: rule.id,
      name: rule.name,
      version: rule.version,
      destination_id: rule.destination_id,
      transformation_id: rule.transformation_id,
      ...(mismatch === undefined ? {} : { mismatch }),
      changed_since: changedSince(entry.timestamp),
    },
  };
}

const NO_DELIVERIES: FoundDeliveries = { byId: new Map(), complete: true };

/** The deliveries of these rules; with `slow`, those that were appended from route's slow queue. */
async function deliveriesOf(
  scan: LogScan,
  { entry, event }: AcceptedEvent,
  evaluated: readonly EvaluatedRule[],
  slow: boolean,
): Promise<FoundDeliveries> {
  if (evaluated.length === 0) return NO_DELIVERIES;
  const rules = evaluated.map(({ rule }) => rule);
  return findDeliveries(scan, {
    accepted: entry,
    event,
    partitions: partitionsOf(scan, event, rules),
    hasAll: (byId) =>
      rules.every((rule) => rule.transformation_id === null && byId.has(deliveryId(rule.id, event, 0))),
    slow,
  });
}

function merged(one: FoundDeliveries, other: FoundDeliveries): FoundDeliveries {
  return { byId: new Map([...one.byId, ...other.byId]), complete: one.complete && other.complete };
}

/** All partitions where a rule has a transformation, which may change the event's subject and so the key. */
function partitionsOf(scan: LogScan, event: CanonicalEvent, rules: readonly Rule[]): ReadonlySet<number> {
  const spec = scan.specOf(TOPIC.deliveries);
  if (rules.some((rule) => rule.transformation_id !== null))
    return new Set(Array.from({ length: spec.partitions }, (_, partition) => partition));
  return new Set(
    rules.flatMap(({ destination_id }) => partitionsOfKey(deliveryKey({ destination_id, event }), spec)),
  );
}

/** An event in route's slow queue, by the ids of the rules that are applied there. Replays are left out. */
interface SlowQueueState {
  /** Rules that the event waits for. */
  readonly waiting: readonly string[];
  /** Rules that it waits for again because their dead delivery was redriven. */
  readonly redriven: readonly string[];
  /** Rules that it waited for and that the stage has applied. */
  readonly passed: readonly string[];
  /** True when the queue was read to its end. */
  readonly complete: boolean;
}

const NOT_IN_SLOW_QUEUE: SlowQueueState = { waiting: [], redriven: [], passed: [], complete: true };

/** The entries of an accepted event, which route has consumed, in route's slow queue. */
export async function slowQueueOf(scan: LogScan, { entry, event }: AcceptedEvent): Promise<SlowQueueState> {
  const topic = TOPIC.eventsSlow;
  const { partition } = entry.position;
  const from = await scan.after(entry, topic, partition);
  const consumed = await scan.consumed('route.slow', topic, partition);
  const [waiting, redriven, passed]: [string[], string[], string[]] = [[], [], []];
  const before = await scan.visit({ topic, partition, from, to: consumed }, (slow) => {
    const { headers } = slow;
    if (headers[HEADER.replay] !== undefined || headers[HEADER.redrives] !== undefined) return undefined;
    if (isEntryOf(slow, event)) passed.push(...rulesOf(slow));
    return Number(headers[HEADER.acceptedOffset]) > entry.position.offset ? 'enough' : undefined;
  });
  const behind = await scan.visit({ topic, partition, from: Math.max(from, consumed) }, (slow) => {
    const { headers } = slow;
    if (!isEntryOf(slow, event) || headers[HEADER.replay] !== undefined) return undefined;
    (headers[HEADER.redrives] === undefined ? waiting : redriven).push(...rulesOf(slow));
    return undefined;
  });
  return { waiting, redriven, passed, complete: ![before, behind].includes('timed out') };
}

/** Stands for all rules of the workspace: none was matched yet. */
const ALL = '*';

function rulesOf({ headers }: LogEntry): readonly string[] {
  const match = headers[HEADER.match];
  return match === MATCH.all || match === MATCH.at ? [ALL] : (headers[HEADER.rules] ?? '').split(',');
}

function names(rules: readonly string[], { id }: Rule): boolean {
  return rules.includes(id) || rules.includes(ALL);
}

interface OutcomeOfRule {
  readonly trace: Pick<RuleTrace, 'stage' | 'transformation' | 'deliveries'>;
  /** True when no further deliveries can exist. */
  readonly complete: boolean;
}

async function outcomeOfRule(
  scan: LogScan,
  sources: RuleSources,
  { event }: AcceptedEvent,
  rule: Rule,
  found: FoundDeliveries,
  slow: SlowQueueState,
): Promise<OutcomeOfRule> {
  let complete = found.complete && slow.complete;
  const deliveries: DeliveryTrace[] = [];
  for (let index = 0; ; index++) {
    const logged = found.byId.get(deliveryId(rule.id, event, index));
    if (logged === undefined) break;
    deliveries.push(await traceDelivery(scan, sources, logged, event.workspace_id));
  }
  const isWaiting = names(slow.waiting, rule);
  if (deliveries.length === 0 && !isWaiting) {
    const outcome = await outcomeIn(scan, sources, event.workspace_id, deliveryId(rule.id, event, 0));
    if (outcome === 'unanswered') complete = false;
    else if (outcome !== undefined) deliveries.push(outcome);
  }
  const transformation = isWaiting ? 'unknown' : transformationResult(rule, deliveries, complete);
  return {
    trace: {
      ...(isWaiting || names(slow.redriven, rule) ? { stage: 'route.slow' as const } : {}),
      transformation,
      deliveries,
    },
    complete,
  };
}

/** For a rule that may have been changed since: the deliveries show whether the rule matched at the time. */
function correctedByDeliveries(trace: RuleTrace, isComplete: boolean): RuleTrace {
  const { mismatch, ...matched } = trace;
  const undecided = causeBefore(trace.deliveries);
  if (undecided !== undefined)
    return mismatch?.because === undecided ? trace : { ...matched, mismatch: { because: undecided } };
  if (trace.deliveries.length > 0 || trace.stage !== undefined) return matched;
  if (mismatch !== undefined || trace.transformation === 'dropped' || !isComplete) return trace;
  return { ...trace, mismatch: { because: 'not_at_the_time' } };
}

/** Set when a delivery is dead because its rule was not decided. */
function causeBefore(
  deliveries: readonly DeliveryTrace[],
): 'filter_failed' | 'filter_not_evaluated' | 'over_budget' | undefined {
  for (const { cause } of deliveries)
    if (cause === 'filter_failed' || cause === 'filter_not_evaluated' || cause === 'over_budget')
      return cause;
  return undefined;
}

/** A matching rule without deliveries has dropped the event, provided that all deliveries it could have were found. */
function transformationResult(
  rule: Rule,
  deliveries: readonly DeliveryTrace[],
  isComplete: boolean,
): TransformationResult {
  if (deliveries.some(({ cause }) => cause === 'transformation')) return 'failed';
  if (causeBefore(deliveries) !== undefined) return 'unknown';
  if (rule.transformation_id === null) return deliveries.length > 0 ? 'none' : 'unknown';
  if (deliveries.length > 0) return 'outputs';
  return isComplete ? 'dropped' : 'unknown';
}

const RETRY_TOPICS = retryTopic('');

/** A delivery as route appended it. */
interface LoggedDelivery {
  readonly delivery: DeliveryEnvelope;
  readonly entry: LogEntry;
}

interface DeliverySources {
  readonly history: Pick<History, 'get'>;
}

/** The deliveries that route appended for an event. */
interface FoundDeliveries {
  /** The newest entry of each, by the delivery's id. */
  readonly byId: ReadonlyMap<string, LoggedDelivery>;
  /** True when everything that route has appended for the event by now was read. */
  readonly complete: boolean;
}

/** Selects deliveries of an accepted event. */
interface DeliveryQuery {
  readonly accepted: LogEntry;
  readonly event: CanonicalEvent;
  /** Partitions of `deliveries` to search. */
  readonly partitions: Iterable<number>;
  /** Ends the search: no deliveries beside the found ones can exist. */
  hasAll(byId: ReadonlyMap<string, LoggedDelivery>): boolean;
  /** Whether route's slow queue may have appended them, which it does in no particular order. */
  readonly slow: boolean;
}

/**
 * Finds the entries on `deliveries` that belong to an accepted event. Route commits in the order of `events.accepted`, so
 * the first delivery of a later event of its partition ends the search, except for deliveries from its slow queue.
 */
async function findDeliveries(
  scan: LogScan,
  { accepted, event, partitions, hasAll, slow }: DeliveryQuery,
): Promise<FoundDeliveries> {
  const topic = TOPIC.deliveries;
  const byId = new Map<string, LoggedDelivery>();
  const ends = await Promise.all(
    [...partitions].map(async (partition) => {
      const from = await scan.after(accepted, topic, partition);
      return scan.visit({ topic, partition, from }, (entry) => {
        if (!isEntryOf(entry, event))
          return !slow && isOfLaterEvent(scan, entry, accepted, event) ? 'enough' : undefined;
        const delivery = readDeliveryEntry(entry);
        if (delivery.replay === undefined) byId.set(delivery.id, { delivery, entry });
        return hasAll(byId) ? 'enough' : undefined;
      });
    }),
  );
  return { byId, complete: ends.every((end) => end !== 'timed out') };
}

/** Whether an entry is the first delivery of a later event of the same partition. Redrives, replays and notices are in no order. */
function isOfLaterEvent(scan: LogScan, entry: LogEntry, accepted: LogEntry, event: CanonicalEvent): boolean {
  if (entry.timestamp < accepted.timestamp + CLOCK_SKEW_MS) return false;
  const delivery = readDeliveryEntry(entry);
  const { redrives, replay, created_at, workspace_id, destination_id, environment } = delivery;
  const receivedAt = receivedAtOf(delivery, entry);
  if (redrives > 0 || replay !== undefined || receivedAt === undefined || environment !== event.environment)
    return false;
  const partitions = scan.log.topics.get(TOPIC.accepted)?.partitions ?? 1;
  const subject = entry.key.slice(destination_id.length + 1);
  // Its partition of accepted events is unknown.
  if (subject.startsWith(HASHED_SUBJECT)) return false;
  return (
    partitionOf(`${workspace_id}:${subject}`, partitions) === accepted.position.partition &&
    receivedAt > Date.parse(event.received_at) + CLOCK_SKEW_MS &&
    Date.parse(created_at) > accepted.timestamp
  );
}

/** Undefined for a notice. */
function receivedAtOf(delivery: DeliveryEnvelope, { headers }: LogEntry): number | undefined {
  if (hasEvent(delivery)) return isNotice(delivery) ? undefined : Date.parse(delivery.event.received_at);
  const [, , , receivedAt] = headers[HEADER.countedAs]?.split('|') ?? [];
  return receivedAt === undefined ? undefined : Number(receivedAt);
}

/**
 * The state of a delivery, from the places it can be in, in the order in which it moves on, so that it is not missed
 * between two of them:
 *
 * 1. not consumed by deliver yet: pending, unless history has an outcome;
 * 2. in the slow queue or a retry topic: the same;
 * 3. with an outcome, on a topic that the history stage has not consumed yet, or in history;
 * 4. without any of these it was delivered at its first attempt, which leaves no record. This is reported only when all
 *    places were read to their end, else the state is `unknown`.
 */
export async function traceDelivery(
  scan: LogScan,
  sources: DeliverySources,
  logged: LoggedDelivery,
  workspaceId: string,
): Promise<DeliveryTrace> {
  const { delivery, entry } = logged;
  const { partition, offset } = entry.position;
  const pendingAt = (stage: TraceStage): DeliveryTrace => ({
    ...idsOf(delivery),
    status: 'pending',
    stage,
    first_try: false,
    attempts: delivery.attempts,
  });
  const consumed = await scan.consumed('deliver', TOPIC.deliveries, partition);
  if (consumed <= offset)
    return outcomeOr(await outcomeIn(scan, sources, workspaceId, delivery.id), pendingAt('deliver'));
  const queue = await queueOf(scan, logged);
  if (queue !== undefined && queue !== 'timed out')
    return outcomeOr(await outcomeIn(scan, sources, workspaceId, delivery.id), pendingAt(queue));
  const unindexed = await unindexedOutcome(scan, logged);
  const indexed = await outcomeIn(scan, sources, workspaceId, delivery.id);
  const outcome = unindexed.newest ?? (indexed === 'unanswered' ? undefined : indexed);
  if (outcome !== undefined) return unindexed.complete ? outcome : { ...outcome, status: 'unknown' };
  const isDelivered = queue === undefined && unindexed.complete && indexed !== 'unanswered';
  const trace = { ...idsOf(delivery), first_try: isDelivered, attempts: [] };
  return { ...trace, status: isDelivered ? 'delivered' : 'unknown' };
}

/** The outcome of a delivery in history; `unanswered` when history does not respond in time. */
async function outcomeIn(
  scan: LogScan,
  { history }: DeliverySources,
  workspaceId: string,
  id: string,
): Promise<DeliveryTrace | undefined | 'unanswered'> {
  const entry = await scan.ask('history', () => history.get('delivery', workspaceId, id));
  return entry === undefined || entry === 'unanswered' ? entry : traceOfOutcome(outcomeOfEntry(entry));
}

function outcomeOr(outcome: Awaited<ReturnType<typeof outcomeIn>>, otherwise: DeliveryTrace): DeliveryTrace {
  return outcome === undefined || outcome === 'unanswered' ? otherwise : outcome;
}

function traceOfOutcome(outcome: DeliveryOutcome): DeliveryTrace {
  const { delivery, status, reason, cause, next_attempt_at } = outcome;
  return {
    ...idsOf(delivery),
    status,
    first_try: false,
    attempts: delivery.attempts,
    ...defined({ reason, cause, next_attempt_at }),
  };
}

function idsOf({ id, index, destination_id, created_at }: DeliveryEnvelope) {
  return { id, index, destination_id, created_at };
}

/**
 * The stage of the queue that a delivery waits in: the slow queue or a retry topic, keyed as `deliveries` is or by its id. A
 * delivery may move from the slow queue to a retry topic meanwhile, so retry topics are read before and after the slow
 * queue.
 */
async function queueOf(scan: LogScan, logged: LoggedDelivery): Promise<TraceStage | undefined | 'timed out'> {
  const retryTopics = [...scan.log.topics.keys()].filter((topic) => topic.startsWith(RETRY_TOPICS));
  const inRetry = () =>
    Promise.all(retryTopics.map((topic) => findWaiting(scan, topic, 'deliver.retry', logged)));
  const before = await inRetry();
  if (before.includes('enough')) return 'deliver.retry';
  const slow = await findWaiting(scan, TOPIC.deliveriesSlow, 'deliver.slow', logged);
  if (slow === 'enough') return 'deliver.slow';
  const after = await inRetry();
  if (after.includes('enough')) return 'deliver.retry';
  return [...before, slow, ...after].includes('timed out') ? 'timed out' : undefined;
}

/** Ends with `enough` when the delivery has an entry on a topic that the topic's stage has not consumed yet. */
async function findWaiting(
  scan: LogScan,
  topic: string,
  stage: TraceStage,
  { delivery, entry }: LoggedDelivery,
): Promise<ScanEnd> {
  let ended: ScanEnd = 'end';
  for (const partition of partitionsOfDelivery(scan, topic, { delivery, entry })) {
    const [since, consumed] = await Promise.all([
      scan.after(entry, topic, partition),
      scan.consumed(stage, topic, partition),
    ]);
    const end = await scan.visit({ topic, partition, from: Math.max(since, consumed) }, (waiting) =>
      waiting.key === delivery.id || (isEntryOf(waiting, delivery) && waiting.value.includes(delivery.id))
        ? 'enough'
        : undefined,
    );
    if (end === 'enough') return end;
    if (end === 'timed out') ended = end;
  }
  return ended;
}

/** Where records of a delivery may be: keyed as its record on `deliveries`, or by its id. */
function partitionsOfDelivery(
  scan: LogScan,
  topic: string,
  { delivery, entry }: LoggedDelivery,
): ReadonlySet<number> {
  const spec = scan.specOf(topic);
  return new Set([...partitionsOfKey(entry.key, spec), ...partitionsOfKey(delivery.id, spec)]);
}

/** The newest outcome that the history stage has not consumed yet; `complete` when all of them were read. */
async function unindexedOutcome(
  scan: LogScan,
  logged: LoggedDelivery,
): Promise<{ readonly newest: DeliveryTrace | undefined; readonly complete: boolean }> {
  let newest: { readonly at: number; readonly trace: DeliveryTrace } | undefined;
  let complete = true;
  const { id } = logged.delivery;
  const retryTopics = [...scan.log.topics.keys()].filter((topic) => topic.startsWith(RETRY_TOPICS));
  const partitions = [TOPIC.outcomes, TOPIC.deliveriesDead, ...retryTopics].flatMap((topic) =>
    [...partitionsOfDelivery(scan, topic, logged)].map((partition) => ({ topic, partition })),
  );
  for (const { topic, partition } of partitions) {
    const from =
      (await scan.log.positionOf('history', topic, partition)) ?? (await scan.log.first(topic, partition));
    const end = await scan.visit({ topic, partition, from }, (entry) => {
      const outcome = outcomeInRecord(entry, logged.delivery);
      const { timestamp } = entry;
      if (outcome?.delivery.id === id && (newest === undefined || timestamp >= newest.at))
        newest = { at: timestamp, trace: traceOfOutcome(outcome) };
      return undefined;
    });
    complete &&= end !== 'timed out';
  }
  return { newest: newest?.trace, complete };
}

/** The outcome in a record that is about this delivery. */
function outcomeInRecord(
  { key, value, timestamp, position }: LogEntry,
  delivery: DeliveryEnvelope,
): DeliveryOutcome | undefined {
  if (key === delivery.id) {
    const reference = readDeliveryReference(value);
    if (reference !== undefined)
      return recordsOutcome(reference) ? referencedOutcome(reference, delivery, timestamp) : undefined;
  }
  if (position.topic.startsWith(RETRY_TOPICS) || !value.includes(delivery.id)) return undefined;
  return readOutcome(value);
}
