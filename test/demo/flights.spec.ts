import { expect, it } from 'vitest';
import { computeAnswers } from './answers.ts';
import { DEPARTED, readFlights } from './flights.ts';

const events = readFlights();

it('maps January 2013 to the known numbers of events', () => {
  expect(events).toHaveLength(33_474);
  expect(computeAnswers(events)).toMatchObject({
    identify: 3_322,
    group: 3_148,
    track: 27_004,
    departed: 26_483,
    cancelled: 521,
    violating: 85,
    passing: 26_398,
    late: 1_808,
  });
});

it('knows of whom there are profiles, and for whom each plane flies', () => {
  const { profiles, airlines } = computeAnswers(events);
  expect(profiles.size).toBe(3_861);
  expect(airlines.size).toBe(3_148);
  expect([...airlines.keys()].filter((plane) => !profiles.has(plane))).toEqual([]);
  expect(airlines.get('N14228')).toEqual({ UA: 'United Air Lines Inc.' });
});

it('knows every airline of a plane that changed it', () => {
  const flew = (group_id: string) => ({
    type: 'group' as const,
    message_id: group_id,
    user_id: 'N1',
    group_id,
    traits: { name: `Airline ${group_id}` },
  });
  const { airlines } = computeAnswers([flew('A'), flew('B')]);
  expect(airlines.get('N1')).toEqual({ A: 'Airline A', B: 'Airline B' });
});

it('gives each row its own message_id, the same every time', () => {
  expect(new Set(events.map((event) => event.message_id)).size).toBe(events.length);
  expect(readFlights()[0]?.message_id).toBe(events[0]?.message_id);
});

it('leaves gaps out and keeps numbers as numbers', () => {
  const departures = events.filter(({ event }) => event === DEPARTED);
  expect(departures.filter(({ properties }) => properties?.carrier === 'UA')).toHaveLength(4_605);
  expect(departures.filter(({ properties }) => properties?.dest === 'HNL')).toHaveLength(62);
  expect(departures.reduce((sum, { properties }) => sum + Number(properties?.distance), 0)).toBe(26_859_611);
  const anonymous = events.filter((event) => event.anonymous_id !== undefined);
  expect(anonymous).toHaveLength(155);
  expect(new Set(anonymous.map((event) => event.anonymous_id)).size).toBe(99);
  expect(JSON.stringify(events)).not.toContain('"NA"');
});
