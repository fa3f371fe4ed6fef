import { CANCELLED, DEPARTED, type FlightEvent } from './flights.ts';

/** What a month of flights must come to, computed from its events apart from any pipeline. */
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
  /** Of those that pass: more than 60 minutes late. */
  readonly late: number;
  /** Of those that pass: the sum of `distance`. */
  readonly distance: number;
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
  };
}
