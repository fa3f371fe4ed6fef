import {
  asyncHandler,
  type Catalog,
  destinationMismatch,
  type FlowStage,
  HEADER,
  InvalidInput,
  isSampled,
  type LogEntry,
  MATCH,
  type Metrics,
  type Mismatch,
  measureText,
  messageOf,
  type OutputRecord,
  type Rule,
  type Span,
  type StageContext,
  type StageNote,
  type Tracing,
  type Transformation,
  type TransformationContext,
  transformationInput,
} from '@tributary/core';
import { awaitCatalog, catalogPositionOf } from '../catalog-position.ts';
import { RecordedEvent, verdictIn } from '../event-record.ts';
import type { FairShare } from '../fairness/fair-share.ts';
import type { PartitionWindows } from '../fairness/partition-windows.ts';
import {
  downstreamMs,
  PIECE_CHARS,
  type RunPiece,
  type SlowQueueScheduler,
} from '../fairness/slow-queue-scheduler.ts';
import {
  droppedOnRedrive,
  failedTransformation,
  type Routed,
  toDeliver,
  toDeliverTransformed,
  toSlowQueue,
  toSlowQueueUnmatched,
} from './delivery.ts';
import { type Matching, matchAgain, matchAll, matchOf, stillTakes } from './matching.ts';
import type { TransformedEvents } from './output.ts';
import { shareOf } from './output-limits.ts';
import { type Applied, applyInPieces } from './pieces.ts';
import { type AppliedRule, appliedNotes, type CountedRule, countAll, notTakenNote } from './route-notes.ts';
import type { EventLimits, Transformer } from './transformer.ts';

export interface RouteDependencies {
  readonly catalog: Catalog;
  readonly transformer: Transformer;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
}

const TRANSFORMATION_DELETED = 'its transformation was deleted';
const UNEVALUATED: TransformationContext['contract'] = { outcome: 'accepted', id: null, version: null };

/** The stage `route`: applies all matching enabled rules. Events with a slow transformation go to the slow queue. */
export function route(
  dependencies: RouteDependencies,
  windows: PartitionWindows,
  share: FairShare,
): FlowStage['handle'] {
  const { catalog, metrics, catalogWaitMs } = dependencies;
  return asyncHandler(async (entry, context) => {
    await awaitCatalog(catalog, [entry], catalogWaitMs);
    const subject = routed(dependencies, entry, context, { redrives: 0, sharing: 0 });
    const { workspace_id } = subject.source;
    if (share.goesToSlowQueue(workspace_id)) {
      metrics.count('tributary_events_diverted_total', { stage: 'route' });
      return [toSlowQueueUnmatched(subject)];
    }
    const { rules, outputRecords, notes, filterMs } = matchAll(subject, { state: catalog.state, metrics });
    share.charge(workspace_id, filterMs);
    const sharing = sharingOf(rules);
    const applied = await applyRules(dependencies, { ...subject, sharing }, rules, windows);
    const all =
      outputRecords.length === 0 ? applied.outputRecords : [...outputRecords, ...applied.outputRecords];
    share.charge(workspace_id, writingMs(all));
    countAll(context, notes, applied.notes);
    return all;
  });
}

/** Processor time of one character of a delivery, ms: to serialize, append, read, sign and send it. */
const WRITING_MS_PER_CHARACTER = 20e-6;

/** Processor time of output records in route and in the stages behind it, ms. */
function writingMs(outputRecords: readonly OutputRecord[]): number {
  let characters = 0;
  for (const { value } of outputRecords) characters += value.length;
  return characters * WRITING_MS_PER_CHARACTER;
}

/**
 * The stage `route.slow`: events that `route` diverted, and redriven and replayed ones, by the rules that their entry names.
 * A diverted event is not matched by a rule that was disabled or narrowed meanwhile, as if it came now. A redrive or a replay
 * was requested by a person and applies whatever the status of the rule.
 */
export function routeSlow(
  dependencies: RouteDependencies,
  scheduler: SlowQueueScheduler,
): FlowStage['handle'] {
  return asyncHandler(async (entry, context) => {
    await awaitCatalog(dependencies.catalog, [entry], dependencies.catalogWaitMs);
    const redrives = numberIn(entry, HEADER.redrives) ?? 0;
    const subject = routed(dependencies, entry, context, { redrives, sharing: 0 });
    const { workspace_id } = subject.source;
    const match = matchOf(entry);
    const named = (match === MATCH.all ? [] : rulesNamed(entry)).map((id) => ({
      id,
      rule: dependencies.catalog.state.entity('rule', workspace_id, id),
    }));
    const isAskedFor = redrives > 0 || subject.replay !== undefined;
    const rules = named.flatMap(({ rule }) =>
      rule !== undefined && (isAskedFor || stillTakes(rule, subject.source)) ? [rule] : [],
    );
    const notTaken = named.flatMap(({ rule }) => (rule === undefined || rules.includes(rule) ? [] : [rule]));
    const ofDeleted = named.flatMap(({ id, rule }) => (rule === undefined ? [withoutRule(subject, id)] : []));
    const matched =
      match === undefined
        ? { rules, outputRecords: [], notes: [] }
        : await scheduler.run(
            workspace_id,
            () => matchSlow(dependencies, subject, match, rules),
            ({ outputRecords }) => downstreamMs(outputRecords),
          );
    const sharing = numberIn(entry, HEADER.rulesSharing) ?? sharingOf(matched.rules);
    const applied = await applyRules(dependencies, { ...subject, sharing }, matched.rules, undefined);
    const left = notTaken.map((rule) => notTakenNote(subject, rule, 'disabled'));
    countAll(context, left, ...ofDeleted.map(({ notes }) => notes), matched.notes, applied.notes);
    return [
      ...ofDeleted.flatMap(({ outputRecords }) => outputRecords),
      ...matched.outputRecords,
      ...applied.outputRecords,
    ];
  });
}

function matchSlow(
  { catalog, metrics }: RouteDependencies,
  subject: Routed,
  match: keyof typeof MATCH,
  named: readonly Rule[],
): Omit<Matching, 'filterMs'> {
  const parts = { state: catalog.state, metrics };
  return match === MATCH.all ? matchAll(subject, parts) : matchAgain(subject, match, named, parts);
}

/** Why a transformation must not run; undefined where it may. */
export function refusalOf(transformation: Transformation | undefined): string | undefined {
  if (transformation === undefined) return TRANSFORMATION_DELETED;
  if (transformation.status === 'draft') return 'its transformation is a draft';
  if (transformation.status === 'active') return undefined;
  return `its transformation is in error: ${transformation.last_error ?? 'unknown'}`;
}

function routed(
  { catalog }: RouteDependencies,
  entry: LogEntry,
  context: StageContext,
  counts: Pick<Routed, 'redrives' | 'sharing'>,
): Routed {
  const catalogPosition = Math.max(catalog.position, catalogPositionOf(entry));
  const source = new RecordedEvent(entry);
  return { entry, source, ...counts, replay: entry.headers[HEADER.replay], catalogPosition, context };
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

async function applyRules(
  dependencies: RouteDependencies,
  routed: Routed,
  rules: readonly Rule[],
  windows: PartitionWindows | undefined,
): Promise<{ readonly outputRecords: readonly OutputRecord[]; readonly notes: readonly StageNote[] }> {
  const { transformer } = dependencies;
  const eventLimits: EventLimits = { pendingEvent: { isDone: false }, share: shareOf(routed.sharing) };
  const limits = {
    elapsed: transformer.elapsed,
    slowAfterMs: windows?.slowAfterMs ?? Number.POSITIVE_INFINITY,
  };
  const apply = (rule: Rule) => applyRule(dependencies, routed, rule, windows, eventLimits);
  const { outputRecords, notes, left } = await applyInPieces(routed, rules, apply, limits).finally(() =>
    transformer.release(eventLimits.pendingEvent),
  );
  if (left.length > 0) outputRecords.push(toSlowQueue(routed, left));
  for (const { topic } of outputRecords)
    dependencies.metrics.count('tributary_events_routed_total', { topic });
  return { outputRecords, notes };
}

/**
 * Applies one rule. Where its destination is disabled, or not for the event's environment, it makes no deliveries: enabling
 * the destination affects later events only. A redriven event is shown as retrying, so it becomes dead again.
 */
async function applyRule(
  { catalog, transformer, tracing }: RouteDependencies,
  routed: Routed,
  rule: Rule,
  windows: PartitionWindows | undefined,
  eventLimits: EventLimits,
): Promise<Applied> {
  const destination = catalog.state.entity('destination', rule.workspace_id, rule.destination_id);
  const closed = destinationMismatch(destination, routed.source.environment);
  if (closed !== undefined) return withoutDestination(routed, rule, closed);
  if (rule.transformation_id === null) {
    return { outputRecords: [toDeliver(routed, rule)], result: 'passed' };
  }
  const transformation = catalog.state.entity('transformation', rule.workspace_id, rule.transformation_id);
  const refusal = refusalOf(transformation);
  if (transformation === undefined || refusal !== undefined)
    return failed(routed, rule, 'refused', refusal ?? TRANSFORMATION_DELETED);
  const run = { transformer, tracing, routed, rule, transformation, eventLimits };
  if (windows === undefined) return transform(run, undefined);
  const bytes = Buffer.byteLength(routed.entry.value);
  const permit = await windows.enter(routed.entry, transformation.id, bytes);
  if (permit === undefined) return 'slow';
  try {
    return await transform(run, windows.slowAfterMs);
  } finally {
    permit.release();
  }
}

/** A dead delivery in place of the rule's. */
function failed(routed: Routed, rule: CountedRule, kind: string, reason: string): AppliedRule {
  const result = `${measureText('failed', kind)}+${measureText('dead', 'transformation')}`;
  return { outputRecords: [failedTransformation(routed, rule, reason)], result };
}

/** A redriven event is shown as retrying, so it becomes dead again; its destination may not be in the entry. */
function withoutRule(
  routed: Routed,
  id: string,
): { readonly outputRecords: readonly OutputRecord[]; readonly notes: readonly StageNote[] } {
  const rule = { id, destination_id: routed.entry.headers[HEADER.destinationId] ?? '' };
  if (routed.redrives === 0) return { outputRecords: [], notes: [notTakenNote(routed, rule, 'disabled')] };
  const applied = failed(routed, rule, 'refused', 'the rule was deleted');
  return { outputRecords: applied.outputRecords, notes: appliedNotes(routed, rule, applied) };
}

function withoutDestination(routed: Routed, rule: Rule, { because }: Mismatch): Applied {
  if (routed.redrives === 0) return { notTaken: because };
  const reason =
    because === 'destination_disabled'
      ? 'the destination is disabled'
      : `the destination is not for ${routed.source.environment}`;
  return failed(routed, rule, 'refused', reason);
}

interface TransformationRun extends Pick<RouteDependencies, 'transformer' | 'tracing'> {
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
  if (outcome.events.length === 0)
    return { outputRecords: routed.redrives > 0 ? [droppedOnRedrive(routed, rule)] : [], result: 'dropped' };
  const outputRecords = await deliveriesOf(routed, rule, outcome, transformer.runPiece);
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
      chars += outputRecord.value.length;
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
