import { CANCELLED, DEPARTED, type FlightEvent } from './flights.ts';

/** The expected results for a month of flights, computed from its events without any pipeline. */
export interface FlightAnswers {
  readonly identify: number;
  readonly group: number;
  readonly track: number;
  readonly departed: number;
  readonly cancelled: number;
  /** Departures without a numeric `arr_delay`: the contract blocks them. */
  readonly violating: number;
  /** Departures that pass the contract. */
  readonly passing: number;
  /** Among the flights that pass: those more than 60 minutes late. */
  readonly late: number;
  /** Among the flights that pass: the sum of `distance`. */
  readonly distance: number;
  /** The users and groups that events describe: each has a profile. */
  readonly profiles: ReadonlySet<string>;
  /**
   * The airlines of each plane: names of groups by their ids. A plane may change its airline; then it has
   * both.
   */
  readonly airlines: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

export function computeAnswers(events: readonly FlightEvent[]): FlightAnswers {
  const ofType = (type: string) => events.filter((event) => event.type === type).length;
  const departed = events.filter(({ event }) => event === DEPARTED);
  const passing = departed.filter(({ properties }) => typeof properties?.arr_delay === 'number');
  return {
    identify: ofType('identify'),
    group: ofType('group'),
    track: ofType('track'),
    departed: departed.length,
    cancelled: events.filter(({ event }) => event === CANCELLED).length,
    violating: departed.length - passing.length,
    passing: passing.length,
    late: passing.filter(({ properties }) => Number(properties?.dep_delay) > 60).length,
    distance: passing.reduce((sum, { properties }) => sum + Number(properties?.distance ?? 0), 0),
    profiles: new Set(events.filter(({ type }) => type !== 'track').flatMap(({ user_id }) => user_id ?? [])),
    airlines: airlinesIn(events),
  };
}

function airlinesIn(events: readonly FlightEvent[]): FlightAnswers['airlines'] {
  const airlines = new Map<string, Record<string, string>>();
  for (const { type, user_id, group_id, traits } of events) {
    if (type !== 'group' || user_id === undefined || group_id === undefined) continue;
    airlines.set(user_id, { ...airlines.get(user_id), [group_id]: String(traits?.name) });
  }
  return airlines;
}
