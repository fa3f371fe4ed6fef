import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { nameId } from '@tributary/core';
import { parse } from 'csv-parse/sync';

/** One event in the form of a batch item. */
export interface FlightEvent {
  readonly type: 'identify' | 'group' | 'track';
  readonly message_id: string;
  readonly event?: string;
  readonly group_id?: string;
  readonly user_id?: string;
  readonly anonymous_id?: string;
  readonly timestamp?: string;
  readonly traits?: Readonly<Record<string, string | number>>;
  readonly properties?: Readonly<Record<string, string | number>>;
}

export const DEPARTED = 'Flight Departed';
export const CANCELLED = 'Flight Cancelled';

type Row = Readonly<Record<string, string>>;

const DATA = fileURLToPath(new URL('../data/', import.meta.url));
const MISSING = 'NA';
const NUMBER = /^-?\d+(\.\d+)?$/;

/**
 * The New York departures of a month as events: planes, then the airline of each plane, then flights in
 * order.
 */
export function readFlights(flightsFile = `${DATA}flights-2013-01.csv.gz`): readonly FlightEvent[] {
  const planes = rowsOf(readFileSync(`${DATA}planes.csv`, 'utf8'));
  const airlines = new Map(
    rowsOf(readFileSync(`${DATA}airlines.csv`, 'utf8')).map((row) => [row.carrier, row.name ?? '']),
  );
  const flights = rowsOf(gunzipSync(readFileSync(flightsFile)).toString('utf8'));
  return [...planes.map(planeEvent), ...groupEvents(flights, airlines), ...flights.map(flightEvent)];
}

function rowsOf(text: string): readonly Row[] {
  return parse(text, { columns: true, skip_empty_lines: true }) as Row[];
}

function planeEvent({ tailnum = '', ...traits }: Row): FlightEvent {
  return {
    type: 'identify',
    message_id: nameId(`plane-${tailnum}`),
    user_id: tailnum,
    traits: values(traits),
  };
}

function groupEvents(
  flights: readonly Row[],
  airlines: ReadonlyMap<string | undefined, string>,
): readonly FlightEvent[] {
  const seen = new Map<string, FlightEvent>();
  for (const { tailnum = MISSING, carrier = MISSING } of flights) {
    if (tailnum === MISSING) continue;
    const name = `group-${tailnum}-${carrier}`;
    if (seen.has(name)) continue;
    const traits = { name: airlines.get(carrier) ?? carrier };
    seen.set(name, { type: 'group', message_id: nameId(name), user_id: tailnum, group_id: carrier, traits });
  }
  return [...seen.values()];
}

function flightEvent(row: Row): FlightEvent {
  const { year, month, day, carrier = '', flight = '', origin, tailnum = MISSING, time_hour = '' } = row;
  return {
    type: 'track',
    message_id: nameId([year, month, day, carrier, flight, origin].join('-')),
    event: row.dep_time === MISSING ? CANCELLED : DEPARTED,
    ...(tailnum === MISSING ? { anonymous_id: carrier + flight } : { user_id: tailnum }),
    timestamp: time_hour,
    properties: values(row),
  };
}

/** Numeric values as numbers, missing ones left out. */
function values(row: Row): Readonly<Record<string, string | number>> {
  return Object.fromEntries(
    Object.entries(row)
      .filter(([, value]) => value !== MISSING)
      .map(([name, value]) => [name, NUMBER.test(value) ? Number(value) : value]),
  );
}
