import {
  type CanonicalEvent,
  type Catalog,
  closedTo,
  type Destination,
  deliveryId,
  FilterBudget,
  formatPosition,
  isUndecided,
  type LogEntry,
  mayHoldExactNumbers,
  mismatchOf,
  organizationOf,
  parseExact,
  type Rule,
  subjectOfRules,
  transformationInput,
  withDoubles,
} from '@tributary/core';
import { eventOf, verdictIn } from '../event-record.ts';
import { takesEvent, takesHeaders } from '../replay/selection.ts';
import { DELETED, refusalOf, shareOf, type Transformer } from '../route/transformer.ts';
import { type Lane, rulesOf } from './lanes.ts';

/** An event for a warehouse, with the digits of its numbers. */
export interface SelectedEvent {
  readonly event: CanonicalEvent;
  /** In the log, as text. */
  readonly position: string;
  /** Of its row; undefined: that of the event. */
  readonly id?: string;
  /** Why it cannot be loaded. */
  readonly failure?: string;
}

interface SelectionDependencies {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly transformer: Pick<Transformer, 'run' | 'release'>;
}

const NOTHING: readonly SelectedEvent[] = [];

/**
 * What a warehouse gets of an entry of `events.accepted`. Without rules it gets all events of its environments. Else the first
 * of its enabled rules that takes the event decides, and its transformation is applied: an event has one row, whichever rules
 * take it. Of a replay for one rule that rule decides, also while it is disabled.
 */
export async function selectEvents(
  dependencies: SelectionDependencies,
  destination: Destination,
  { replay }: Lane,
  entry: LogEntry,
): Promise<readonly SelectedEvent[]> {
  if (replay !== undefined && !takesHeaders(replay, entry)) return NOTHING;
  eventOf(entry);
  const exact = parseExact<CanonicalEvent>(entry.value);
  const event = mayHoldExactNumbers(entry.value) ? withDoubles(exact) : exact;
  if (replay !== undefined && !takesEvent(replay, event)) return NOTHING;
  if (closedTo(destination, event) !== undefined) return NOTHING;
  const whole = { event: exact, position: formatPosition(entry.position) };
  const { state } = dependencies.catalog;
  const rules = rulesOf(state, destination);
  if (rules.length === 0) return [whole];
  const asked = replay?.rule_id ?? undefined;
  const open = asked === undefined ? rules : rules.filter(({ id }) => id === asked);
  const budget = new FilterBudget(organizationOf(state, destination.workspace_id));
  const subject = subjectOfRules(event);
  for (const rule of open) {
    const mismatch = mismatchOf(asked === undefined ? rule : { ...rule, enabled: true }, subject, budget);
    if (mismatch === undefined)
      return rule.transformation_id === null
        ? [whole]
        : transformed(dependencies, rule, { ...whole, event }, entry);
    if (isUndecided(mismatch))
      return [{ ...whole, failure: `filter: ${mismatch.message ?? mismatch.because}` }];
  }
  return NOTHING;
}

async function transformed(
  { catalog, transformer }: SelectionDependencies,
  rule: Rule,
  { event, position }: SelectedEvent,
  entry: LogEntry,
): Promise<readonly SelectedEvent[]> {
  const failed = (failure: string) => [{ event: parseExact<CanonicalEvent>(entry.value), position, failure }];
  const { workspace_id, transformation_id } = rule;
  const transformation = catalog.state.entity('transformation', workspace_id, transformation_id ?? '');
  const refusal = refusalOf(transformation);
  if (transformation === undefined || refusal !== undefined) return failed(refusal ?? DELETED);
  const limits = { pendingEvent: { isDone: false }, share: shareOf(1) };
  const context = {
    workspace_id,
    rule_id: rule.id,
    rule_name: rule.name,
    environment: event.environment,
    contract: verdictIn(entry.headers) ?? { outcome: 'accepted', id: null, version: null },
  } as const;
  try {
    const input = transformationInput(entry.value, context, event);
    const outcome = await transformer.run(transformation, event, input, {}, limits);
    if (outcome === 'too slow') return failed('its transformation is too slow');
    if (!outcome.ok) return failed(`${outcome.kind}: ${outcome.message}`);
    return outcome.events.map((made, index) => ({
      event: made,
      position,
      ...(index > 0 && { id: deliveryId(rule.id, event, index) }),
    }));
  } finally {
    transformer.release(limits.pendingEvent);
  }
}
