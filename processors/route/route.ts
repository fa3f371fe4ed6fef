import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  asyncHandler,
  type DeliveryOutcome,
  type DestinationMismatch,
  destinationMismatch,
  EMBEDDED_EVENT_BYTES,
  EventLoopYielder,
  type FlowStage,
  HEADER,
  InvalidInput,
  isSampled,
  type LogEntry,
  MATCH,
  measureText,
  messageOf,
  type OutputRecord,
  type OverBudget,
  type ReferredEvent,
  type Rule,
  readReferredEvent,
  recordChars,
  referenceTo,
  type Span,
  type StageContext,
  type ThreadTurns,
  type Transformation,
  type TransformationContext,
  type TransformedEvents,
  transformationInput,
} from '@tributary/core';
import { awaitCatalog, catalogPositionOf, isAhead } from '../catalog-position.ts';
import { RecordedEvent, verdictIn } from '../event-record.ts';
import {
  downstreamMs,
  type FairShare,
  PIECE_CHARS,
  type RunPiece,
  recordsBehindMs,
  WorkspaceSlots,
} from '../fairness/fair-share.ts';
import type { TransformationTurns } from '../fairness/slowness.ts';
import { mayReferTo, type RecordReader } from '../record-reader.ts';
import type { StageParts } from '../stages.ts';
import { type Matching, matchOf, matchRules, rulesAtOf, rulesInQuestion, stillTaking } from './matching.ts';
import {
  type AppliedRule,
  completedOnRedrive,
  counted,
  deadBeforeDelivery,
  noteApplied,
  noteNotTaken,
  type Routed,
  type RuleOfDelivery,
  toDeliver,
  toDeliverTransformed,
  toSlowQueue,
  toSlowQueueUnmatched,
  withoutEvent,
} from './routed-event.ts';
import { DELETED, type EventLimits, refusalOf, shareOf, type Transformer } from './transformer.ts';

export interface RouteDependencies extends Omit<StageParts, 'logger'> {
  readonly transformer: Transformer;
  /** Reads events that records refer to. */
  readonly records: Pick<RecordReader, 'eventText'>;
  /** Runs a piece of the work on large outputs. */
  readonly runPiece: RunPiece;
}

const UNEVALUATED: TransformationContext['contract'] = { outcome: 'accepted', id: null, version: null };

/** The stage `route`: applies all matching enabled rules. Events with a slow transformation go to the slow queue. */
export function route(
  dependencies: RouteDependencies,
  turns: TransformationTurns,
  share: FairShare,
): FlowStage['handle'] {
  const { catalog, metrics } = dependencies;
  const diverted = (subject: Routed) => {
    metrics.count('tributary_events_diverted_total', { stage: 'route' });
    return [toSlowQueueUnmatched(subject)];
  };
  return asyncHandler(async (entry, context) => {
    if (isAhead(entry, catalog)) await awaitCatalog(catalog, [entry]);
    const subject = routed(dependencies, entry, context, { redrives: 0, sharing: 0 });
    const { workspace_id } = subject.source;
    const over = dependencies.budgets?.verdictOf(workspace_id);
    if (over !== undefined)
      return counted(subject, deadOverBudget(dependencies, subject, over, MATCH.all, []));
    if (share.goesToSlowQueue(workspace_id)) return diverted(subject);
    const matching = matchRules(subject, MATCH.all, [], { state: catalog.state, metrics });
    let step = matching.next();
    while (step.done !== true) {
      share.charge(workspace_id, step.value);
      await nextTurn();
      // Other events of the workspace may have used up its share meanwhile.
      if (share.goesToSlowQueue(workspace_id)) return diverted(subject);
      step = matching.next();
    }
    const { rules, outputRecords, filterMs } = step.value;
    // Before the deliveries are made: the events behind this one are admitted meanwhile.
    share.charge(workspace_id, filterMs + recordsBehindMs(rules.length));
    // Most events of some workspaces have no rule: none of them waits for promises.
    const applied =
      rules.length === 0
        ? []
        : await applyRules(dependencies, { ...subject, sharing: sharingOf(rules) }, rules, turns);
    const all = [...outputRecords, ...applied];
    share.charge(workspace_id, writingMs(all));
    return counted(subject, all);
  });
}

/** Processor time of one character of a delivery, ms: to serialize, append, read, sign and send it. */
const WRITING_MS_PER_CHARACTER = 20e-6;

/** Processor time of output records in route and in the stages behind it, ms. */
function writingMs(outputRecords: readonly OutputRecord[]): number {
  let characters = 0;
  for (const outputRecord of outputRecords) characters += recordChars(outputRecord);
  return characters * WRITING_MS_PER_CHARACTER;
}

/**
 * The stage `route.slow`: events that `route` diverted, and redriven and replayed ones, by the rules that their entry names.
 * A diverted event is not matched by a rule that was disabled or narrowed meanwhile, like an event that arrives now. A
 * redrive or a replay was requested by a person and applies whatever the status of the rule.
 */
export function routeSlow(dependencies: RouteDependencies, scheduler: ThreadTurns): FlowStage['handle'] {
  const referred = new WorkspaceSlots(REFERRED_AT_ONCE);
  return asyncHandler(async (entry, context) => {
    await awaitCatalog(dependencies.catalog, [entry]);
    const reference = readReferredEvent(entry.value);
    if (reference === undefined) return routeSlowly(dependencies, scheduler, entry, context);
    return referred.run(entry.headers[HEADER.workspaceId] ?? '', async () => {
      const { event_at } = reference;
      const text = await dependencies.records.eventText(event_at, entry.headers[HEADER.workspaceId] ?? '');
      if (text === undefined) return withoutItsEvent(dependencies, entry, reference);
      return routeSlowly(dependencies, scheduler, { ...entry, value: text }, context, {
        recorded: entry.value,
        eventAt: event_at,
      });
    });
  });
}

/** Events of one workspace that route's slow queue reads where their records refer to, at a time: they are in memory. */
const REFERRED_AT_ONCE = 8;

async function routeSlowly(
  dependencies: RouteDependencies,
  scheduler: ThreadTurns,
  entry: LogEntry,
  context: StageContext,
  recorded?: Recorded,
): Promise<readonly OutputRecord[]> {
  const redrives = numberIn(entry, HEADER.redrives) ?? 0;
  const subject = routed(dependencies, entry, context, { redrives, sharing: 0 }, recorded);
  const { workspace_id } = subject.source;
  const match = matchOf(entry);
  const named = (match === MATCH.all ? [] : rulesNamed(entry)).map((id) => ({
    id,
    rule: dependencies.catalog.state.entity('rule', workspace_id, id),
  }));
  const isAskedFor = redrives > 0 || subject.replay !== undefined;
  const known = named.flatMap(({ rule }) => (rule === undefined ? [] : [rule]));
  const rules = isAskedFor ? known : stillTaking(known, subject.source, dependencies.catalog.state);
  const notTaken = known.filter((rule) => !rules.includes(rule));
  // Of several rules with one dead delivery, the first one has it.
  const ofDeleted = named.flatMap(({ id, rule }, at) =>
    rule === undefined && (at === 0 || match === undefined || redrives === 0) ? withoutRule(subject, id) : [],
  );
  const over = dependencies.budgets?.verdictOf(workspace_id);
  if (over !== undefined && (rules.length > 0 || match === MATCH.all || match === MATCH.at)) {
    return counted(subject, [...ofDeleted, ...deadOverBudget(dependencies, subject, over, match, rules)]);
  }
  const matched =
    match === undefined
      ? { rules, outputRecords: [] }
      : await matchSlow(dependencies, subject, match, rules, scheduler);
  const sharing = numberIn(entry, HEADER.rulesSharing) ?? sharingOf(matched.rules);
  const applied = await applyRules(dependencies, { ...subject, sharing }, matched.rules, undefined);
  for (const rule of notTaken) noteNotTaken(subject, rule, 'disabled');
  return counted(subject, [...ofDeleted, ...matched.outputRecords, ...applied]);
}

/**
 * The log no longer has the event. A redriven delivery becomes dead again; of a replay, whose record was not read for as long
 * as the log keeps events, nothing is made.
 */
function withoutItsEvent(
  { catalog }: RouteDependencies,
  entry: LogEntry,
  reference: ReferredEvent,
): readonly OutputRecord[] {
  if ((numberIn(entry, HEADER.redrives) ?? 0) === 0)
    throw new InvalidInput(`the event at ${reference.event_at.position} is no longer kept`);
  const workspaceId = entry.headers[HEADER.workspaceId] ?? '';
  const rules = rulesNamed(entry).map(
    (id) =>
      catalog.state.entity('rule', workspaceId, id) ?? {
        id,
        destination_id: entry.headers[HEADER.destinationId] ?? '',
      },
  );
  return withoutEvent(entry, reference, rules);
}

/**
 * The result for an event of a workspace that is over a budget: one dead delivery on behalf of all rules that it waits for,
 * which are matched when it is redriven. So nothing is lost, and nothing multiplies: the ids of hundreds of rules are listed
 * only where the record of the event had to list them too.
 */
function deadOverBudget(
  { catalog, metrics, clock }: RouteDependencies,
  subject: Routed,
  { budget, used, limit }: OverBudget,
  match: keyof typeof MATCH | undefined,
  named: readonly Rule[],
): readonly OutputRecord[] {
  metrics.count('tributary_events_over_budget_total', { budget });
  const [first, ...others] = rulesInQuestion(subject, match, named, catalog.state);
  if (first === undefined) return [];
  noteNotTaken(subject, first, 'over_budget', 'over_budget');
  const reason = `the workspace is over its budget ${budget}: ${used} of ${limit} bytes`;
  const rules = standsFor(subject, match, others, clock());
  return [deadBeforeDelivery(subject, first, reason, 'over_budget', rules)];
}

/** The rules that a dead delivery stands for, beside its own. */
function standsFor(
  { entry }: Routed,
  match: keyof typeof MATCH | undefined,
  others: readonly Rule[],
  now: number,
): Pick<DeliveryOutcome, 'rules' | 'rules_at'> {
  if (match === MATCH.at) return { rules_at: rulesAtOf(entry) };
  if (others.length === 0) return {};
  return match === MATCH.all ? { rules_at: now } : { rules: others.map(({ id }) => id) };
}

async function matchSlow(
  { catalog, metrics }: RouteDependencies,
  subject: Routed,
  match: keyof typeof MATCH,
  named: readonly Rule[],
  scheduler: ThreadTurns,
): Promise<Pick<Matching, 'rules' | 'outputRecords'>> {
  const matching = matchRules(subject, match, named, { state: catalog.state, metrics });
  for (;;) {
    const step = await scheduler.run(
      subject.source.workspace_id,
      () => matching.next(),
      ({ done, value }) => (done === true ? downstreamMs(value.outputRecords) : 0),
    );
    if (step.done === true) return step.value;
  }
}

/** The value of a record, and the reference in it. */
type Recorded = Pick<Routed, 'recorded' | 'eventAt'>;

function routed(
  { catalog, clock, retentionMs }: RouteDependencies,
  entry: LogEntry,
  context: StageContext,
  counts: Pick<Routed, 'redrives' | 'sharing'>,
  { recorded, eventAt = undefined }: Partial<Recorded> = {},
): Routed {
  const catalogPosition = Math.max(catalog.position, catalogPositionOf(entry));
  const source = new RecordedEvent(entry);
  const { value } = entry;
  const isReferred =
    value.length > EMBEDDED_EVENT_BYTES &&
    catalog.state.isUpgraded &&
    mayReferTo(eventAt?.timestamp ?? entry.timestamp, clock(), retentionMs);
  return {
    entry,
    recorded: recorded ?? value,
    eventAt: isReferred ? (eventAt ?? referenceTo(entry, value)) : undefined,
    source,
    ...counts,
    replay: entry.headers[HEADER.replay],
    catalogPosition,
    context,
    notes: [],
  };
}

/** Number of rules that share the limits of one event. */
function sharingOf(rules: readonly Rule[]): number {
  return rules.filter((rule) => rule.transformation_id !== null).length;
}

function rulesNamed(entry: LogEntry): readonly string[] {
  const ids = entry.headers[HEADER.rules];
  if (ids === undefined || ids === '') throw new InvalidInput('names no rules');
  return ids.split(',');
}

function numberIn(entry: LogEntry, header: string): number | undefined {
  const text = entry.headers[header];
  if (text === undefined) return undefined;
  if (!/^\d{1,6}$/.test(text)) throw new InvalidInput(`bad number in ${header}`);
  return Number(text);
}

/** Rules of one event that run concurrently: each may hold outputs up to its limits. */
const AT_ONCE = 8;

/** Characters of output records after which the remaining rules become a record of the slow queue. */
const COMMIT_CHARS = 4 * 1024 * 1024;

/** Work on one event after which others get the thread, ms; the stage counts and appends what was made in the same slice. */
const SLICE_MS = 2;

/**
 * The result of a rule for an event, the reason why its destination takes none, or `slow` where its transformation has
 * used up its share of the window.
 */
type Applied = AppliedRule | { readonly notTaken: DestinationMismatch['because'] } | 'slow';

/**
 * Applies rules until their output records suffice for one commit, or until it took long. The other rules become a record of
 * the slow queue, so the memory of an event is bounded however many rules match it.
 */
async function applyRules(
  dependencies: RouteDependencies,
  routed: Routed,
  rules: readonly Rule[],
  turns: TransformationTurns | undefined,
): Promise<readonly OutputRecord[]> {
  const { transformer, elapsed, metrics } = dependencies;
  const eventLimits: EventLimits = { pendingEvent: { isDone: false }, share: shareOf(routed.sharing) };
  const thread = new EventLoopYielder(elapsed, SLICE_MS);
  const until = elapsed() + (turns?.slowAfterMs ?? Number.POSITIVE_INFINITY);
  const outputRecords: OutputRecord[] = [];
  const slow: Rule[] = [];
  let [at, chars] = [0, 0];
  try {
    while (at < rules.length && chars < COMMIT_CHARS && elapsed() < until) {
      if (at > 0 && thread.isYieldDue) await thread.yield();
      const together = rules.slice(at, at + AT_ONCE);
      const applying = together.map((rule) => applyRule(dependencies, routed, rule, turns, eventLimits));
      for (const [i, made] of (await Promise.all(applying)).entries()) {
        const rule = together[i];
        if (rule === undefined) continue;
        if (made === 'slow') slow.push(rule);
        else if ('notTaken' in made) noteNotTaken(routed, rule, made.notTaken);
        else {
          noteApplied(routed, rule, made);
          outputRecords.push(...made.outputRecords);
          for (const outputRecord of made.outputRecords) chars += recordChars(outputRecord);
        }
      }
      at += together.length;
    }
  } finally {
    transformer.release(eventLimits.pendingEvent);
  }
  const left = [...slow, ...rules.slice(at)];
  if (left.length > 0) outputRecords.push(toSlowQueue(routed, left));
  for (const { topic } of outputRecords) metrics.count('tributary_events_routed_total', { topic });
  return outputRecords;
}

/**
 * Applies one rule. Where its destination is disabled, or not for the event, it makes no deliveries: enabling
 * the destination affects later events only. A redriven event is shown as retrying, so it becomes dead again.
 */
async function applyRule(
  { catalog, transformer, runPiece, tracing }: RouteDependencies,
  routed: Routed,
  rule: Rule,
  turns: TransformationTurns | undefined,
  eventLimits: EventLimits,
): Promise<Applied> {
  const destination = catalog.state.entity('destination', rule.workspace_id, rule.destination_id);
  const closed = destinationMismatch(destination, routed.source);
  if (closed !== undefined) return withoutDestination(routed, rule, closed);
  if (rule.transformation_id === null) {
    const passed = () => ({ outputRecords: [toDeliver(routed, rule)], result: 'passed' });
    // In the slow queue in turns: a hundred rules without filters were the work of a hundred deliveries at once.
    if (turns !== undefined) return passed();
    return await runPiece(rule.workspace_id, passed, ({ outputRecords }) => downstreamMs(outputRecords));
  }
  const transformation = catalog.state.entity('transformation', rule.workspace_id, rule.transformation_id);
  const refusal = refusalOf(transformation);
  if (transformation === undefined || refusal !== undefined)
    return failed(routed, rule, 'refused', refusal ?? DELETED);
  const run = { transformer, runPiece, tracing, routed, rule, transformation, eventLimits };
  return await (turns === undefined ? transform(run, undefined) : transformInTurn(run, turns));
}

async function transformInTurn(run: TransformationRun, turns: TransformationTurns): Promise<Applied> {
  const { entry } = run.routed;
  const end = await turns.enter(entry, run.transformation.id, Buffer.byteLength(entry.value));
  if (end === undefined) return 'slow';
  try {
    return await transform(run, turns.slowAfterMs);
  } finally {
    end();
  }
}

/** A dead delivery in place of the rule's. */
function failed(routed: Routed, rule: RuleOfDelivery, kind: string, reason: string): AppliedRule {
  const result = `${measureText('failed', kind)}+${measureText('dead', 'transformation')}`;
  return { outputRecords: [deadBeforeDelivery(routed, rule, reason, 'transformation')], result };
}

/** A redriven event is shown as retrying, so it becomes dead again; its destination may not be in the entry. */
function withoutRule(routed: Routed, id: string): readonly OutputRecord[] {
  const rule = { id, destination_id: routed.entry.headers[HEADER.destinationId] ?? '' };
  if (routed.redrives === 0) {
    noteNotTaken(routed, rule, 'disabled');
    return [];
  }
  const applied = failed(routed, rule, 'refused', 'the rule was deleted');
  noteApplied(routed, rule, applied);
  return applied.outputRecords;
}

function withoutDestination(routed: Routed, rule: Rule, { because }: DestinationMismatch): Applied {
  if (routed.redrives === 0) return { notTaken: because };
  return failed(routed, rule, 'refused', closedReason(because, routed.source.environment));
}

function closedReason(because: DestinationMismatch['because'], environment: string): string {
  switch (because) {
    case 'integrations':
      return 'the `integrations` of the event exclude the destination';
    case 'warehouse':
      return 'the destination is a warehouse, which gets no deliveries';
    case 'destination_disabled':
      return 'the destination is disabled';
    case 'destination_environment':
      return `the destination is not for ${environment}`;
  }
}

interface TransformationRun extends Pick<RouteDependencies, 'transformer' | 'runPiece' | 'tracing'> {
  readonly routed: Routed;
  readonly rule: Rule;
  readonly transformation: Transformation;
  readonly eventLimits: EventLimits;
}

async function transform(run: TransformationRun, timeoutMs: number | undefined): Promise<Applied> {
  const { transformer, tracing, routed, rule, transformation, eventLimits } = run;
  const { source } = routed;
  const input = transformationInput(routed.entry.value, contextOf(routed, rule), source.event);
  const span = transformationSpan(run);
  const call = () =>
    transformer.run(transformation, source.event, input, routed.context, eventLimits, timeoutMs);
  // A call of the sandbox may carry other events too.
  const outcome = await (tracing === undefined ? call() : tracing.outside(call)).catch((error: unknown) => {
    span?.end(messageOf(error));
    throw error;
  });
  span?.end(outcome === 'too slow' ? outcome : outcome.ok ? undefined : outcome.kind);
  // An event that stays here delays the deliveries of all events behind it in the partition.
  if (outcome === 'too slow') return 'slow';
  if (!outcome.ok) {
    const reason = outcome.kind === 'refused' ? outcome.message : `${outcome.kind}: ${outcome.message}`;
    return failed(routed, rule, outcome.kind, reason);
  }
  if (outcome.events.length === 0) {
    const completed = () => completedOnRedrive(routed, rule, 'dropped by its transformation');
    return { outputRecords: routed.redrives > 0 ? [completed()] : [], result: 'dropped' };
  }
  const outputRecords = await deliveriesOf(routed, rule, outcome, run.runPiece);
  return { outputRecords, result: 'transformed' };
}

function transformationSpan({ tracing, routed, rule, transformation }: TransformationRun): Span | undefined {
  const parent = routed.entry.headers[HEADER.traceparent];
  if (tracing === undefined || !isSampled(parent)) return undefined;
  const attributes = { 'tributary.transformation_id': transformation.id, 'tributary.rule_id': rule.id };
  return tracing.begin('transform', { kind: 'internal', parent, attributes });
}

/** One delivery for each returned event; large ones are serialized in several pieces of work. */
async function deliveriesOf(
  routed: Routed,
  rule: Rule,
  { events, isLarge }: Pick<TransformedEvents, 'events' | 'isLarge'>,
  runPiece: RunPiece,
): Promise<readonly OutputRecord[]> {
  const outputRecords: OutputRecord[] = [];
  const nextOf = (mostChars: number) => {
    const piece: OutputRecord[] = [];
    let chars = 0;
    for (const event of events.slice(outputRecords.length)) {
      if (chars >= mostChars) break;
      const index = outputRecords.length + piece.length;
      const outputRecord = toDeliverTransformed(routed, rule, event, index);
      piece.push(outputRecord);
      chars += recordChars(outputRecord);
    }
    return piece;
  };
  if (isLarge !== true) return nextOf(Number.POSITIVE_INFINITY);
  const { workspace_id } = routed.source;
  while (outputRecords.length < events.length)
    outputRecords.push(...(await runPiece(workspace_id, () => nextOf(PIECE_CHARS), downstreamMs)));
  return outputRecords;
}

function contextOf({ entry: { headers }, source }: Routed, rule: Rule): TransformationContext {
  return {
    workspace_id: source.workspace_id,
    rule_id: rule.id,
    rule_name: rule.name,
    environment: source.environment,
    contract: verdictIn(headers) ?? UNEVALUATED,
  };
}
