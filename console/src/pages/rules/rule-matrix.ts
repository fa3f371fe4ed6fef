import type { Schemas } from '../../api/client.ts';
import { type Environment, EVENT_TYPES, type EventType, hasName } from '../../shared/event-fields.ts';
import { type EventKind, type Rule, selects } from './rule-selection.ts';

export interface EventRow extends EventKind {
  /** Accepted events in the counted period; 0 for an event that only a rule names. */
  readonly events: number;
}

type Volume = Pick<Schemas['EventVolume'], 'event_type' | 'event_name' | 'event_count'>;

/** The received kinds of events, the most frequent first, and then those that only rules name. */
export function eventRowsOf(volume: readonly Volume[], rules: readonly Rule[]): readonly EventRow[] {
  const rows = new Map<string, EventRow>();
  const keyOf = (type: EventType, name: string) => `${type} ${name}`;
  for (const { event_type: type, event_name: name, event_count } of volume) {
    const known = rows.get(keyOf(type, name));
    rows.set(keyOf(type, name), { type, name, events: (known?.events ?? 0) + event_count });
  }
  for (const { event_types, event_names } of rules)
    for (const name of event_names) {
      const types = event_types.filter(hasName);
      // A name without a type is of track events, pages or screens: of the received kinds, or else of track events.
      const wanted =
        types.length > 0 ? types : EVENT_TYPES.filter((type) => hasName(type) && rows.has(keyOf(type, name)));
      for (const type of wanted.length > 0 ? wanted : (['track'] as const))
        if (!rows.has(keyOf(type, name))) rows.set(keyOf(type, name), { type, name, events: 0 });
    }
  return [...rows.values()].sort(
    (left, right) =>
      right.events - left.events ||
      left.type.localeCompare(right.type) ||
      left.name.localeCompare(right.name),
  );
}

/** `all`: every such event is delivered; `some`: a filter decides; `off`: only disabled rules would deliver it. */
export type CellState = 'all' | 'some' | 'off' | 'none';

export interface Cell {
  readonly state: CellState;
  /** Rules of the destination that take such events, disabled ones too. */
  readonly rules: readonly Rule[];
}

export function cellOf(rules: readonly Rule[], event: EventKind, environment: Environment): Cell {
  const taking = rules.filter((rule) => selects(rule, event, environment));
  const enabled = taking.filter((rule) => rule.enabled);
  if (taking.length === 0) return { state: 'none', rules: taking };
  if (enabled.length === 0) return { state: 'off', rules: taking };
  return { state: enabled.some(({ filter }) => filter === null) ? 'all' : 'some', rules: taking };
}

export function isNamed({ type, name }: EventKind, q: string): boolean {
  return `${name} ${type}`.toLowerCase().includes(q.toLowerCase());
}
