import {
  type CanonicalEvent,
  type CatalogView,
  closedTo,
  type DeliveryWay,
  deliveryId,
  deliveryKey,
  type EventLog,
  FilterBudget,
  HEADER,
  HeldThread,
  type LogEntry,
  MATCH,
  matchRules,
  mismatchOf,
  partitionOf,
  type Rule,
  type RuleMatch,
  type RuleWay,
  TOPIC,
  type TransformationResult,
} from '@tributary/core';
import { isAbout } from './accepted.ts';
import {
  type DeliverySources,
  deliveryWay,
  findWritten,
  outcomeIn,
  type WrittenDeliveries,
} from './deliveries.ts';
import type { Look } from './look.ts';
import { CLOCKS_APART_MS } from './received.ts';

/** How long evaluating rules holds the thread, ms. */
const HELD_MS = 2;

/** An accepted event, as route sees it, and what is known of where it stands. */
export interface AcceptedEvent {
  readonly entry: LogEntry;
  readonly event: CanonicalEvent;
}

export interface RuleSources extends DeliverySources {
  readonly state: CatalogView;
}

/** What became of an event that route has taken at every rule of its workspace, newest rule first. */
export async function rulesWay(
  look: Look,
  sources: RuleSources,
  accepted: AcceptedEvent,
): Promise<readonly RuleWay[]> {
  const { log, state } = sources;
  const { event } = accepted;
  const matches = await matchesOf(state, event);
  const judged = state
    .entities('rule', event.workspace_id)
    .map((rule) => judge(rule, state, accepted, matches));
  const asked = judged.filter(({ asks }) => asks);
  const quick = await writtenFor(look, log, accepted, asked, false);
  const missing = asked.filter(({ rule }) => !has(quick, rule, event));
  const slow = missing.length > 0 ? await slowLane(look, log, accepted) : NOT_SLOW;
  const late = missing.filter(({ rule }) => names(slow.passed, rule));
  const written = both(quick, await writtenFor(look, log, accepted, late, true));
  return Promise.all(
    judged.map(async (one) => {
      if (!one.asks) return { ...one.way, transformation: 'unknown' as const, deliveries: [] };
      const outcome = await outcomeOfRule(look, sources, accepted, one.rule, written, slow);
      return inHindsight({ ...one.way, ...outcome.way }, outcome.sure);
    }),
  );
}

type Judged = {
  readonly rule: Rule;
  /** Whether there may be deliveries: it matches, or did by what it was before. */
  readonly asks: boolean;
  readonly way: Omit<RuleWay, 'transformation' | 'deliveries'>;
};

interface Matches {
  readonly byRule: ReadonlyMap<string, RuleMatch>;
  /** The dead delivery of this rule stands for all whose filters were not evaluated. */
  readonly firstNotEvaluated: string | undefined;
}

/** As route matches them. Yields the thread meanwhile: a filter that is new to this process is compiled first. */
async function matchesOf(state: CatalogView, event: CanonicalEvent): Promise<Matches> {
  const budget = new FilterBudget();
  const thread = new HeldThread(() => performance.now(), HELD_MS);
  const byRule = new Map<string, RuleMatch>();
  let firstNotEvaluated: string | undefined;
  for (const rule of state.enabledRules(event.workspace_id)) {
    if (thread.isDueToRest) await thread.rest();
    const [match] = matchRules([rule], event, budget);
    if (match === undefined) continue;
    byRule.set(rule.id, match);
    if (match.mismatch?.because !== 'filter_not_evaluated') continue;
    const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
    if (closedTo(destination, event.environment) === undefined) firstNotEvaluated ??= rule.id;
  }
  return { byRule, firstNotEvaluated };
}

function judge(rule: Rule, state: CatalogView, { entry, event }: AcceptedEvent, matches: Matches): Judged {
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  const match = matches.byRule.get(rule.id);
  const closed = closedTo(destination, event.environment);
  const mismatch = (match === undefined ? mismatchOf(rule, event) : match.mismatch) ?? closed;
  const changed = [rule.updated_at, destination?.updated_at ?? ''].some(
    (at) => Date.parse(at) >= entry.timestamp - CLOCKS_APART_MS,
  );
  const isDead = mismatch?.because === 'filter_failed' || rule.id === matches.firstNotEvaluated;
  const before = Date.parse(rule.created_at) <= entry.timestamp + CLOCKS_APART_MS;
  return {
    rule,
    asks: before && (mismatch === undefined || changed || isDead),
    way: {
      rule_id: rule.id,
      name: rule.name,
      version: rule.version,
      destination_id: rule.destination_id,
      transformation_id: rule.transformation_id,
      ...(mismatch === undefined ? {} : { mismatch }),
      changed_since: changed,
    },
  };
}

const NONE: WrittenDeliveries = { byId: new Map(), all: true };

/** What was written for the event at these rules; `slow`: after it had waited for their transformations. */
async function writtenFor(
  look: Look,
  log: EventLog,
  { entry, event }: AcceptedEvent,
  judged: readonly Judged[],
  slow: boolean,
): Promise<WrittenDeliveries> {
  if (judged.length === 0) return NONE;
  const rules = judged.map(({ rule }) => rule);
  return findWritten(look, log, {
    accepted: entry,
    event,
    partitions: partitionsOf(log, event, rules),
    hasAll: (byId) =>
      rules.every((rule) => rule.transformation_id === null && byId.has(deliveryId(rule.id, event, 0))),
    slow,
  });
}

function both(one: WrittenDeliveries, other: WrittenDeliveries): WrittenDeliveries {
  return { byId: new Map([...one.byId, ...other.byId]), all: one.all && other.all };
}

/** Where deliveries of these rules are: a transformation may have given the event another subject. */
function partitionsOf(log: EventLog, event: CanonicalEvent, rules: readonly Rule[]): ReadonlySet<number> {
  const count = log.topics.get(TOPIC.deliveries)?.partitions ?? 1;
  if (rules.some((rule) => rule.transformation_id !== null))
    return new Set(Array.from({ length: count }, (_, partition) => partition));
  return new Set(
    rules.map(({ destination_id }) => partitionOf(deliveryKey({ destination_id, event }), count)),
  );
}

const has = ({ byId }: WrittenDeliveries, rule: Rule, event: CanonicalEvent) =>
  byId.has(deliveryId(rule.id, event, 0));

/** An event in route's slow lane, by the rules that are applied to it there. A replay of it does not count. */
export interface SlowLane {
  /** It waits for these. */
  readonly waiting: readonly string[];
  /** It waits for these once more: their delivery was dead, and is made anew. */
  readonly redriven: readonly string[];
  /** It waited for these, and the lane has taken it. */
  readonly passed: readonly string[];
  /** True when nothing was left unread. */
  readonly all: boolean;
}

const NOT_SLOW: SlowLane = { waiting: [], redriven: [], passed: [], all: true };

/** What is in the lane of an accepted event that route has taken. */
export async function slowLane(
  look: Look,
  log: EventLog,
  { entry, event }: AcceptedEvent,
): Promise<SlowLane> {
  const topic = TOPIC.eventsSlow;
  const { partition } = entry.position;
  const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCKS_APART_MS);
  const taken = (await log.positionOf('route.slow', topic, partition)) ?? 0;
  const [waiting, redriven, passed]: [string[], string[], string[]] = [[], [], []];
  const before = await look.scan({ topic, partition, from, to: taken }, (slow) => {
    const { headers } = slow;
    if (headers[HEADER.replay] !== undefined || headers[HEADER.redrives] !== undefined) return undefined;
    if (isAbout(slow, event)) passed.push(...rulesOf(slow));
    return Number(headers[HEADER.acceptedOffset]) > entry.position.offset ? 'enough' : undefined;
  });
  const behind = await look.scan({ topic, partition, from: Math.max(from, taken) }, (slow) => {
    const { headers } = slow;
    if (!isAbout(slow, event) || headers[HEADER.replay] !== undefined) return undefined;
    (headers[HEADER.redrives] === undefined ? waiting : redriven).push(...rulesOf(slow));
    return undefined;
  });
  return { waiting, redriven, passed, all: ![before, behind].includes('gave up') };
}

/** All rules of the workspace, as none was matched yet. */
const ALL = '*';

function rulesOf({ headers }: LogEntry): readonly string[] {
  return headers[HEADER.match] === MATCH.all ? [ALL] : (headers[HEADER.rules] ?? '').split(',');
}

function names(rules: readonly string[], { id }: Rule): boolean {
  return rules.includes(id) || rules.includes(ALL);
}

interface OutcomeOfRule {
  readonly way: Pick<RuleWay, 'stage' | 'transformation' | 'deliveries'>;
  /** True when there is no more than was seen. */
  readonly sure: boolean;
}

async function outcomeOfRule(
  look: Look,
  sources: RuleSources,
  { event }: AcceptedEvent,
  rule: Rule,
  written: WrittenDeliveries,
  slow: SlowLane,
): Promise<OutcomeOfRule> {
  let sure = written.all && slow.all;
  const deliveries: DeliveryWay[] = [];
  for (let index = 0; ; index++) {
    const found = written.byId.get(deliveryId(rule.id, event, index));
    if (found === undefined) break;
    deliveries.push(await deliveryWay(look, sources, found, event.workspace_id));
  }
  const waits = names(slow.waiting, rule);
  if (deliveries.length === 0 && !waits) {
    const outcome = await outcomeIn(look, sources, event.workspace_id, deliveryId(rule.id, event, 0));
    if (outcome === 'unanswered') sure = false;
    else if (outcome !== undefined) deliveries.push(outcome);
  }
  const transformation = waits ? 'unknown' : transformationResult(rule, deliveries, sure);
  return {
    way: {
      ...(waits || slow.redriven.includes(rule.id) ? { stage: 'route.slow' as const } : {}),
      transformation,
      deliveries,
    },
    sure,
  };
}

/** Of a rule that was changed since, what is found tells whether it matched at the time. */
function inHindsight(way: RuleWay, sawAll: boolean): RuleWay {
  if (!way.changed_since) return way;
  const { mismatch, ...matched } = way;
  const undecided = causeOfFilter(way.deliveries);
  if (undecided !== undefined)
    return mismatch?.because === undecided ? way : { ...matched, mismatch: { because: undecided } };
  if (way.deliveries.length > 0 || way.stage !== undefined) return matched;
  if (mismatch !== undefined || way.transformation === 'dropped' || !sawAll) return way;
  return { ...way, mismatch: { because: 'not_at_the_time' } };
}

/** Set where the only delivery says that the filter could not decide. */
function causeOfFilter(
  deliveries: readonly DeliveryWay[],
): 'filter_failed' | 'filter_not_evaluated' | undefined {
  for (const { cause } of deliveries)
    if (cause === 'filter_failed' || cause === 'filter_not_evaluated') return cause;
  return undefined;
}

/** Without a delivery a rule that matched has dropped the event, if all deliveries that may be its were seen. */
function transformationResult(
  rule: Rule,
  deliveries: readonly DeliveryWay[],
  sawAll: boolean,
): TransformationResult {
  if (deliveries.some(({ cause }) => cause === 'transformation')) return 'failed';
  if (causeOfFilter(deliveries) !== undefined) return 'unknown';
  if (rule.transformation_id === null) return deliveries.length > 0 ? 'none' : 'unknown';
  if (deliveries.length > 0) return 'outputs';
  return sawAll ? 'dropped' : 'unknown';
}
