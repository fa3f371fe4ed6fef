import type { Schemas } from '../../api/client.ts';
import { type Environment, type EventType, hasName } from '../../shared/event-fields.ts';

export type Rule = Schemas['Rule'];

/** An event as rules select it. */
export interface EventKind {
  readonly type: EventType;
  /** Name of a track event, page or screen; otherwise empty. */
  readonly name: string;
}

const SHOWN_NAMES = 3;

/** The events that a rule takes, in words. */
export function selectionOf({ event_types, event_names }: Pick<Rule, 'event_types' | 'event_names'>): string {
  const types = event_types.length === 0 ? 'all types' : event_types.join(', ');
  if (event_names.length === 0) return event_types.length === 0 ? 'all events' : `all ${types} events`;
  const shown = event_names.slice(0, SHOWN_NAMES).join(', ');
  const more = event_names.length - SHOWN_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

type Selecting = Pick<Rule, 'event_types' | 'event_names' | 'environments'>;

/** Whether a rule selects such events, regardless of its filter and of whether it is enabled. */
export function selects(rule: Selecting, { type, name }: EventKind, environment: Environment): boolean {
  const { event_types, event_names, environments } = rule;
  if (!environments.includes(environment)) return false;
  if (event_types.length > 0 && !event_types.includes(type)) return false;
  if (event_names.length === 0) return true;
  return hasName(type) && event_names.includes(name);
}
