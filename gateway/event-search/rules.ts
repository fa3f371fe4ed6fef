import {
  type CanonicalEvent,
  type CatalogView,
  type DeliveryTrace,
  deliveryId,
  deliveryKey,
  destinationMismatch,
  type EventLog,
  FilterBudget,
  HEADER,
  type LogEntry,
  MATCH,
  matchRules,
  mismatchOf,
  organizationOf,
  partitionsOfKey,
  type Rule,
  type RuleMatch,
  type RuleTrace,
  TOPIC,
  type TransformationResult,
} from '@tributary/core';
import { TENANT_TURNS } from '../limits/tenant-turns.ts';
import { isEntryOf, specOf } from './accepted-event.ts';
import {
  type DeliverySources,
  type FoundDeliveries,
  findDeliveries,
  outcomeIn,
  traceDelivery,
} from './deliveries.ts';
import type { LogScan } from './log-scan.ts';
import { CLOCK_SKEW_MS } from './received-event.ts';

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
  const { log, state } = sources;
  const { event } = accepted;
  const owner = organizationOf(state, event.workspace_id);
  const matches = await TENANT_TURNS.runSteps(owner, matchesOf(state, event));
  const evaluated = state
    .entities('rule', event.workspace_id)
    .map((rule) => evaluateRule(rule, state, accepted, matches));
  const candidates = evaluated.filter(({ mayHaveDeliveries }) => mayHaveDeliveries);
  const direct = await deliveriesOf(scan, log, accepted, candidates, false);
  const missing = candidates.filter(({ rule }) => !direct.byId.has(deliveryId(rule.id, event, 0)));
  const slow = missing.length > 0 ? await slowQueueOf(scan, log, accepted) : NOT_IN_SLOW_QUEUE;
  const fromSlowQueue = missing.filter(({ rule }) => names(slow.passed, rule));
  const found = merged(direct, await deliveriesOf(scan, log, accepted, fromSlowQueue, true));
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
  readonly byRule: ReadonlyMap<string, RuleMatch>;
  /** The dead delivery of this rule stands for all rules whose filters were not evaluated. */
  readonly firstNotEvaluated: string | undefined;
}

/** Matches rules as route does, a rule a step: a filter that is new to this process is compiled first. */
function* matchesOf(state: CatalogView, event: CanonicalEvent): Generator<undefined, Matches> {
  const budget = new FilterBudget(organizationOf(state, event.workspace_id));
  const byRule = new Map<string, RuleMatch>();
  let firstNotEvaluated: string | undefined;
  for (const rule of state.enabledRules(event.workspace_id)) {
    yield;
    const [match] = matchRules([rule], event, budget);
    if (match === undefined) continue;
    byRule.set(rule.id, match);
    if (match.mismatch?.because !== 'filter_not_evaluated') continue;
    const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
    if (destinationMismatch(destination, event) === undefined) firstNotEvaluated ??= rule.id;
  }
  return { byRule, firstNotEvaluated };
}

function evaluateRule(
  rule: Rule,
  state: CatalogView,
  { entry, event }: AcceptedEvent,
  matches: Matches,
): EvaluatedRule {
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  const match = matches.byRule.get(rule.id);
  const closed = destinationMismatch(destination, event);
  const mismatch = (match === undefined ? mismatchOf(rule, event) : match.mismatch) ?? closed;
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
  log: EventLog,
  { entry, event }: AcceptedEvent,
  evaluated: readonly EvaluatedRule[],
  slow: boolean,
): Promise<FoundDeliveries> {
  if (evaluated.length === 0) return NO_DELIVERIES;
  const rules = evaluated.map(({ rule }) => rule);
  return findDeliveries(scan, log, {
    accepted: entry,
    event,
    partitions: partitionsOf(log, event, rules),
    hasAll: (byId) =>
      rules.every((rule) => rule.transformation_id === null && byId.has(deliveryId(rule.id, event, 0))),
    slow,
  });
}

function merged(one: FoundDeliveries, other: FoundDeliveries): FoundDeliveries {
  return { byId: new Map([...one.byId, ...other.byId]), complete: one.complete && other.complete };
}

/** All partitions where a rule has a transformation, which may change the event's subject and so the key. */
function partitionsOf(log: EventLog, event: CanonicalEvent, rules: readonly Rule[]): ReadonlySet<number> {
  const spec = specOf(log, TOPIC.deliveries);
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
export async function slowQueueOf(
  scan: LogScan,
  log: EventLog,
  { entry, event }: AcceptedEvent,
): Promise<SlowQueueState> {
  const topic = TOPIC.eventsSlow;
  const { partition } = entry.position;
  const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCK_SKEW_MS);
  const consumed = (await log.positionOf('route.slow', topic, partition)) ?? 0;
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
