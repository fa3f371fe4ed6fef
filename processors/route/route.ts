import {
  asyncHandler,
  type CanonicalEvent,
  type Catalog,
  destinationMismatch,
  type FlowStage,
  HEADER,
  InvalidInput,
  type LogEntry,
  MATCH,
  type Metrics,
  type Mismatch,
  type OutputRecord,
  type Rule,
  type StageContext,
  type Transformation,
  type TransformationContext,
  transformationInput,
} from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { catalogPositionOf, eventOf, verdictIn } from '../entry.ts';
import type { FairShare } from '../fairness/fair-share.ts';
import type { PartitionWindows } from '../fairness/partition-windows.ts';
import { type InTurn, PIECE_CHARS } from '../fairness/pieces.ts';
import { laterMs, type SlowTurns } from '../fairness/slow-turns.ts';
import {
  deliveryOf,
  droppedOnRedrive,
  failedTransformation,
  type Routed,
  toDeliver,
  toSlowLane,
  toSlowMatching,
} from './delivery.ts';
import { shareOf } from './event-bounds.ts';
import { type Applied, inPieces } from './in-pieces.ts';
import { type Matching, matchAgain, matchAll, matchOf, stillTakes } from './matching.ts';
import type { TransformedEvents } from './output.ts';
import type { Bounds, Transformer } from './transformer.ts';

export interface RouteDependencies {
  readonly catalog: Catalog;
  readonly transformer: Transformer;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
}

const GONE = 'its transformation is gone';
const UNJUDGED: TransformationContext['contract'] = { outcome: 'accepted', id: null, version: null };

/** Accepted events by every enabled rule that matches; those with a slow transformation go on to the slow lane. */
export function route(
  dependencies: RouteDependencies,
  windows: PartitionWindows,
  share: FairShare,
): FlowStage['handle'] {
  const { catalog, metrics, catalogWaitMs } = dependencies;
  return asyncHandler(async (entry, context) => {
    await awaitCatalog(catalog, [entry], catalogWaitMs);
    const event = eventOf(entry);
    const { workspace_id } = event;
    const subject = routed(dependencies, entry, event, context, { redrives: 0, sharing: 0 });
    if (share.sendsSlow(workspace_id)) {
      metrics.count('tributary_events_deferred_total', { stage: 'route' });
      return [toSlowMatching(subject)];
    }
    const { rules, emissions, filterMs } = matchAll(subject, { state: catalog.state, metrics });
    share.charge(workspace_id, filterMs);
    const sharing = sharingOf(rules);
    const applied = await applyRules(dependencies, { ...subject, sharing }, rules, windows);
    const all = emissions.length === 0 ? applied : [...emissions, ...applied];
    share.charge(workspace_id, writingMs(all));
    return all;
  });
}

/** Processor time of one character of a delivery: to write, append and read it, to sign it and send it, ms. */
const MS_PER_CHARACTER = 10e-6;

/** Processor time that this thread has with so much, in route and in the stages behind it, ms. */
function writingMs(emissions: readonly OutputRecord[]): number {
  let characters = 0;
  for (const { value } of emissions) characters += value.length;
  return characters * MS_PER_CHARACTER;
}

/**
 * Events of the slow lane, redriven and replayed ones, by the rules their entry names. Of an event that waited here a rule
 * makes nothing where it was disabled or narrowed meanwhile, as if the event came now. A redrive or a replay is asked for by
 * a person, whatever the state of the rule.
 */
export function routeSlow(dependencies: RouteDependencies, turns: SlowTurns): FlowStage['handle'] {
  return asyncHandler(async (entry, context) => {
    await awaitCatalog(dependencies.catalog, [entry], dependencies.catalogWaitMs);
    const event = eventOf(entry);
    const redrives = numberIn(entry, HEADER.redrives) ?? 0;
    const subject = routed(dependencies, entry, event, context, { redrives, sharing: 0 });
    const match = matchOf(entry);
    const named = (match === MATCH.all ? [] : rulesNamed(entry)).map((id) => ({
      id,
      rule: dependencies.catalog.state.entity('rule', event.workspace_id, id),
    }));
    const isAskedFor = redrives > 0 || subject.replay !== undefined;
    const rules = named.flatMap(({ rule }) =>
      rule !== undefined && (isAskedFor || stillTakes(rule, event)) ? [rule] : [],
    );
    const gone = named.flatMap(({ id, rule }) => (rule === undefined ? withoutRule(subject, id) : []));
    const matched =
      match === undefined
        ? { rules, emissions: [] }
        : await turns.run(
            event.workspace_id,
            () => matchSlow(dependencies, subject, match, rules),
            ({ emissions }) => laterMs(emissions),
          );
    const sharing = numberIn(entry, HEADER.rulesSharing) ?? sharingOf(matched.rules);
    const applied = await applyRules(dependencies, { ...subject, sharing }, matched.rules, undefined);
    return [...gone, ...matched.emissions, ...applied];
  });
}

function matchSlow(
  { catalog, metrics }: RouteDependencies,
  subject: Routed,
  match: keyof typeof MATCH,
  named: readonly Rule[],
): Matching {
  const parts = { state: catalog.state, metrics };
  return match === MATCH.all ? matchAll(subject, parts) : matchAgain(subject, match, named, parts);
}

/** Why a transformation may not run; undefined when it may. */
export function refusalOf(transformation: Transformation | undefined): string | undefined {
  if (transformation === undefined) return GONE;
  if (transformation.status === 'draft') return 'its transformation is a draft';
  if (transformation.status === 'active') return undefined;
  return `its transformation is in error: ${transformation.last_error ?? 'unknown'}`;
}

function routed(
  { catalog }: RouteDependencies,
  entry: LogEntry,
  event: CanonicalEvent,
  context: StageContext,
  counts: Pick<Routed, 'redrives' | 'sharing'>,
): Routed {
  const catalogPosition = Math.max(catalog.position, catalogPositionOf(entry));
  return { entry, event, ...counts, replay: entry.headers[HEADER.replay], catalogPosition, context };
}

/** How many rules share what one event may become. */
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
): Promise<readonly OutputRecord[]> {
  const { transformer } = dependencies;
  const bounds: Bounds = { holder: { isDone: false }, share: shareOf(routed.sharing) };
  const limits = {
    elapsed: transformer.elapsed,
    slowAfterMs: windows?.slowAfterMs ?? Number.POSITIVE_INFINITY,
  };
  const apply = (rule: Rule) => applyRule(dependencies, routed, rule, windows, bounds);
  const { emissions, left } = await inPieces(rules, apply, limits).finally(() =>
    transformer.release(bounds.holder),
  );
  if (left.length > 0) emissions.push(toSlowLane(routed, left));
  for (const { topic } of emissions) dependencies.metrics.count('tributary_events_routed_total', { topic });
  return emissions;
}

/**
 * A rule whose destination is disabled, or not for the event's environment, makes no deliveries: enabling it again starts with what comes then. A redriven
 * one is shown as retrying already, so it is dead once more.
 */
async function applyRule(
  { catalog, transformer }: RouteDependencies,
  routed: Routed,
  rule: Rule,
  windows: PartitionWindows | undefined,
  bounds: Bounds,
): Promise<Applied> {
  const destination = catalog.state.entity('destination', rule.workspace_id, rule.destination_id);
  const closed = destinationMismatch(destination, routed.event.environment);
  if (closed !== undefined) return withoutDestination(routed, rule, closed);
  if (rule.transformation_id === null) {
    return [toDeliver(routed, rule, deliveryOf(routed, rule, routed.event, 0))];
  }
  const transformation = catalog.state.entity('transformation', rule.workspace_id, rule.transformation_id);
  if (transformation === undefined) return [failedTransformation(routed, rule, GONE)];
  const refusal = refusalOf(transformation);
  if (refusal !== undefined) return [failedTransformation(routed, rule, refusal)];
  if (windows === undefined) return transform(transformer, routed, rule, transformation, bounds, undefined);
  const bytes = Buffer.byteLength(routed.entry.value);
  const permit = await windows.enter(routed.entry, transformation.id, bytes);
  if (permit === undefined) return 'slow';
  try {
    return await transform(transformer, routed, rule, transformation, bounds, windows.slowAfterMs);
  } finally {
    permit.release();
  }
}

/** A redriven one is shown as retrying already; the destination its entry does not tell stays unknown. */
function withoutRule(routed: Routed, id: string): readonly OutputRecord[] {
  if (routed.redrives === 0) return [];
  const destination_id = routed.entry.headers[HEADER.destinationId] ?? '';
  return [failedTransformation(routed, { id, destination_id }, 'the rule is gone')];
}

function withoutDestination(routed: Routed, rule: Rule, { because }: Mismatch): readonly OutputRecord[] {
  if (routed.redrives === 0) return [];
  const reason =
    because === 'destination_disabled'
      ? 'the destination is disabled'
      : `the destination is not for ${routed.event.environment}`;
  return [failedTransformation(routed, rule, reason)];
}

async function transform(
  transformer: Transformer,
  routed: Routed,
  rule: Rule,
  transformation: Transformation,
  bounds: Bounds,
  patienceMs: number | undefined,
): Promise<Applied> {
  const input = transformationInput(routed.entry.value, contextOf(routed, rule), routed.event);
  const outcome = await transformer.run(
    transformation,
    routed.event,
    input,
    routed.context,
    bounds,
    patienceMs,
  );
  // What stays here holds up the deliveries of every event behind it in the partition.
  if (outcome === 'too slow') return 'slow';
  if (!outcome.ok) {
    const reason = outcome.kind === 'refused' ? outcome.message : `${outcome.kind}: ${outcome.message}`;
    return [failedTransformation(routed, rule, reason)];
  }
  if (outcome.events.length === 0 && routed.redrives > 0) return [droppedOnRedrive(routed, rule)];
  return deliveriesOf(routed, rule, outcome, transformer.inTurn);
}

/** One for each event that a transformation made; where they are large, some of them in each turn of the workspace. */
async function deliveriesOf(
  routed: Routed,
  rule: Rule,
  { events, isLarge }: Pick<TransformedEvents, 'events' | 'isLarge'>,
  inTurn: InTurn,
): Promise<readonly OutputRecord[]> {
  const emissions: OutputRecord[] = [];
  const nextOf = (mostChars: number) => {
    const piece: OutputRecord[] = [];
    let chars = 0;
    for (const event of events.slice(emissions.length)) {
      if (chars >= mostChars) break;
      const index = emissions.length + piece.length;
      const emission = toDeliver(routed, rule, deliveryOf(routed, rule, event, index));
      piece.push(emission);
      chars += emission.value.length;
    }
    return piece;
  };
  if (isLarge !== true) return nextOf(Number.POSITIVE_INFINITY);
  const { workspace_id } = routed.event;
  while (emissions.length < events.length)
    emissions.push(...(await inTurn(workspace_id, () => nextOf(PIECE_CHARS), laterMs)));
  return emissions;
}

function contextOf({ entry: { headers }, event }: Routed, rule: Rule): TransformationContext {
  return {
    workspace_id: event.workspace_id,
    rule_id: rule.id,
    rule_name: rule.name,
    environment: event.environment,
    contract: verdictIn(headers) ?? UNJUDGED,
  };
}
