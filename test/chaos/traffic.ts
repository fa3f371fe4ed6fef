import { murmur2, subjectOf } from '@tributary/core';
import { type FlightEvent, readFlights } from '../demo/flights.ts';

/** One event of the run, and its index among the events of its subject. */
export interface SentEvent {
  readonly event: FlightEvent;
  readonly subject: string;
  /** Grows with each event of the subject. */
  readonly sequence: number;
}

/** Repeats the flights, each time under new message ids, until there are `count` events. */
export function repeatFlights(count: number): readonly SentEvent[] {
  const flights = readFlights();
  return Array.from({ length: count }, (_, sequence) => {
    const flight = flights[sequence % flights.length];
    if (flight === undefined) throw new Error('there are no flights');
    const round = Math.floor(sequence / flights.length);
    const event = { ...flight, message_id: `${flight.message_id}.${round}` };
    return { event, subject: subjectOf(event), sequence };
  });
}

/** Each subject belongs to one producer, which sends its events in order. */
export function shareOut(events: readonly SentEvent[], producers: number): readonly (readonly SentEvent[])[] {
  const shares: SentEvent[][] = Array.from({ length: producers }, () => []);
  for (const sent of events)
    shares[(murmur2(Buffer.from(`producer of ${sent.subject}`)) >>> 0) % producers]?.push(sent);
  return shares;
}
