import { CANCELLED, DEPARTED, type FlightEvent } from '../demo/flights.ts';

/** The rules of the run, by the destination of each. */
export type RuleName = 'late ones to the webhook' | 'departures to files';

export interface ExpectedViolation {
  readonly kind: string;
  readonly path: string;
  readonly action: 'warned' | 'omitted' | 'blocked';
}

/** The required outcome of an event. */
export interface Expectation {
  readonly outcome: 'accepted' | 'warned' | 'omitted' | 'rejected';
  readonly violations: readonly ExpectedViolation[];
  /** `properties` or `traits`, as in `events.accepted` or in `events.rejected`. */
  readonly subject: object;
  readonly deliveries: readonly RuleName[];
}

/** A departure further away than this is blocked. */
export const LONGEST_MILES = 2_500;
/** A departure later than this goes to the webhook. */
export const LATE_MINUTES = 60;
/** The fields that a plane may contain; all others are removed. */
export const PLANE_FIELDS = ['year', 'type', 'manufacturer', 'model', 'engines', 'seats'];

/** Follows the rules of `prepareChaosWorkspace`, without any code of the pipeline. */
export function expectationOf(event: FlightEvent): Expectation {
  if (event.type === 'identify') return ofPlane(event);
  if (event.event === DEPARTED) return ofDeparture(event);
  if (event.event === CANCELLED) return ofCancellation(event);
  return { outcome: 'accepted', violations: [], subject: event.traits ?? {}, deliveries: [] };
}

function ofPlane({ traits = {} }: FlightEvent): Expectation {
  const known = Object.entries(traits).filter(([name]) => PLANE_FIELDS.includes(name));
  const unknown = Object.keys(traits).filter((name) => !PLANE_FIELDS.includes(name));
  return {
    outcome: unknown.length > 0 ? 'omitted' : 'accepted',
    violations: unknown.map((name) => ({ kind: 'undeclared', path: `/${name}`, action: 'omitted' })),
    subject: Object.fromEntries(known),
    deliveries: [],
  };
}

function ofDeparture({ properties = {} }: FlightEvent): Expectation {
  const violations: ExpectedViolation[] = [];
  if (properties.arr_delay === undefined)
    violations.push({ kind: 'required', path: '/arr_delay', action: 'blocked' });
  if (Number(properties.distance) > LONGEST_MILES)
    violations.push({ kind: 'bounds', path: '/distance', action: 'blocked' });
  if (violations.length > 0) return { outcome: 'rejected', violations, subject: properties, deliveries: [] };
  const isLate = Number(properties.dep_delay) > LATE_MINUTES;
  return {
    outcome: 'accepted',
    violations,
    subject: properties,
    deliveries: isLate ? ['departures to files', 'late ones to the webhook'] : ['departures to files'],
  };
}

function ofCancellation({ properties = {} }: FlightEvent): Expectation {
  const isUnknown = properties.arr_delay === undefined;
  return {
    outcome: isUnknown ? 'warned' : 'accepted',
    violations: isUnknown ? [{ kind: 'required', path: '/arr_delay', action: 'warned' }] : [],
    subject: properties,
    deliveries: [],
  };
}
