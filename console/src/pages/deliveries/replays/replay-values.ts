import type { Schemas } from '../../../api/client.ts';
import type { Environment, EventType } from '../../../shared/event-fields.ts';

/** The values of a replay's form, named as in the body. Times are in the viewer's zone. */
export interface ReplayValues {
  outcome: 'accepted' | 'rejected';
  rule_id: string;
  since: string;
  until: string;
  event_types: string[];
  event_names: string[];
  environments: string[];
  events_per_second: number | string;
  new_ids: boolean;
}

const HOUR_MS = 3_600_000;

/** Initial values: all events of the last hour. */
export function newReplayValues(
  { rule, outcome }: { readonly rule?: string; readonly outcome?: 'rejected' },
  now: number,
): ReplayValues {
  return {
    outcome: outcome ?? 'accepted',
    rule_id: rule ?? '',
    since: localOf(now - HOUR_MS),
    until: '',
    event_types: [],
    event_names: [],
    environments: [],
    events_per_second: 100,
    new_ids: false,
  };
}

export function replayBodyOf(values: ReplayValues): Schemas['ReplayBody'] {
  const { outcome, rule_id, since, until, event_types, event_names, environments } = values;
  const ofAccepted = outcome === 'accepted';
  return {
    outcome,
    since: new Date(since).toISOString(),
    until: until === '' ? null : new Date(until).toISOString(),
    rule_id: ofAccepted && rule_id !== '' ? rule_id : null,
    new_ids: ofAccepted ? values.new_ids : null,
    event_types: event_types as EventType[],
    event_names,
    environments: environments as Environment[],
    events_per_second: values.events_per_second === '' ? null : Number(values.events_per_second),
  };
}

export function replayErrorsOf({ since, until }: ReplayValues, now: number): Record<string, string> {
  const [from, to] = [Date.parse(since), until === '' ? now : Date.parse(until)];
  if (Number.isNaN(from)) return { since: 'is required' };
  if (Number.isNaN(to)) return { until: 'is not a time' };
  if (to > now + 60_000) return { until: 'must not be in the future' };
  return from >= to ? { since: 'must be before the end' } : {};
}

/** The effect of the replay, in a sentence. */
export function summaryOf(values: ReplayValues, ruleName: string | undefined): string {
  const { outcome, event_names, event_types, environments, new_ids } = values;
  const names = event_names.length > 0 ? event_names.map((name) => `"${name}"`).join(', ') : undefined;
  const what = names ?? (event_types.length > 0 ? `${event_types.join(', ')} events` : 'all events');
  const where = environments.length === 1 ? ` of ${environments[0]}` : '';
  if (outcome === 'rejected')
    return `Rejected events (${what}${where}) are evaluated again by the contracts as they are now. Those that pass are accepted and delivered, once.`;
  const to = ruleName === undefined ? 'for every enabled rule' : `for the rule "${ruleName}" alone`;
  const ids = new_ids
    ? 'Destinations receive new ids, so they take each event as a new one.'
    : 'Destinations receive the original ids, so those that recognize them drop repeats.';
  return `Accepted events (${what}${where}) are delivered once more, ${to}. ${ids}`;
}

/** A local time as `<input type="datetime-local">` writes it. */
function localOf(ms: number): string {
  const time = new Date(ms);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day}T${two(time.getHours())}:${two(time.getMinutes())}`;
}
