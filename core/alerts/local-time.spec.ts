import { describe, expect, it } from 'vitest';
import { isQuiet, isTimeZone, sameHourBefore } from './local-time.ts';

const at = (text: string) => Date.parse(text);
const before = (text: string, weeks: number, zone: string) =>
  new Date(sameHourBefore(at(text), weeks, zone)).toISOString();

describe('the same hour of the week before', () => {
  it('is so many weeks earlier where clocks do not change', () => {
    expect(before('2026-03-20T09:00:00Z', 1, 'UTC')).toBe('2026-03-13T09:00:00.000Z');
    expect(before('2026-06-20T09:00:00Z', 4, 'Europe/Berlin')).toBe('2026-05-23T09:00:00.000Z');
  });

  it.each([
    ['to summer time', '2026-04-02T07:00:00Z', 1, 'Europe/Berlin', '2026-03-26T08:00:00.000Z'],
    ['to winter time', '2026-10-29T08:00:00Z', 1, 'Europe/Berlin', '2026-10-22T07:00:00.000Z'],
    ['in New York', '2026-03-09T13:00:00Z', 1, 'America/New_York', '2026-03-02T14:00:00.000Z'],
    [
      'of half an hour, to a whole one',
      '2026-04-09T00:00:00Z',
      1,
      'Australia/Lord_Howe',
      '2026-04-02T00:00:00.000Z',
    ],
  ])('is at the same time of the clocks over a change %s', (_what, now, weeks, zone, expected) => {
    expect(before(now, weeks, zone)).toBe(expected);
  });

  it('is a neighbour of an hour that a change leaves out, and one of an hour that comes twice', () => {
    // 02:30 was not shown on 2026-03-29.
    expect(before('2026-04-05T00:00:00Z', 1, 'Europe/Berlin')).toMatch(/^2026-03-29T0[01]:00/);
    // 02:30 was shown twice on 2026-10-25.
    expect(before('2026-11-01T01:00:00Z', 1, 'Europe/Berlin')).toMatch(/^2026-10-25T0[01]:00/);
  });
});

describe('quiet hours', () => {
  const nights = [{ days: ['fri', 'sat'], from: '22:00', until: '07:00' }] as const;

  it.each([
    ['2026-01-02T20:59:00Z', false],
    ['2026-01-02T21:00:00Z', true],
    ['2026-01-03T05:59:00Z', true],
    ['2026-01-03T06:00:00Z', false],
    ['2026-01-04T05:00:00Z', true],
    ['2026-01-04T22:00:00Z', false],
    ['2026-01-02T05:00:00Z', false],
  ])('over midnight belong to the day on which they begin: %s %s', (now, quiet) => {
    expect(isQuiet(nights, 'Europe/Berlin', at(now))).toBe(quiet);
  });

  it('follow the clocks over a change', () => {
    const daily = [{ days: ['sun'], from: '01:00', until: '04:00' }] as const;
    // 04:00 is one hour of UTC earlier on the day of the change.
    expect(isQuiet(daily, 'Europe/Berlin', at('2026-03-29T00:30:00Z'))).toBe(true);
    expect(isQuiet(daily, 'Europe/Berlin', at('2026-03-29T01:59:00Z'))).toBe(true);
    expect(isQuiet(daily, 'Europe/Berlin', at('2026-03-29T02:00:00Z'))).toBe(false);
  });

  it('of equal ends are a whole day', () => {
    const day = [{ days: ['mon'], from: '00:00', until: '00:00' }] as const;
    expect(isQuiet(day, 'UTC', at('2026-01-05T00:00:00Z'))).toBe(true);
    expect(isQuiet(day, 'UTC', at('2026-01-05T23:59:00Z'))).toBe(true);
    expect(isQuiet(day, 'UTC', at('2026-01-06T00:00:00Z'))).toBe(false);
  });

  it('may be none', () => {
    expect(isQuiet(null, 'UTC', 0)).toBe(false);
    expect(isQuiet([], 'UTC', 0)).toBe(false);
  });
});

it('knows the names of time zones', () => {
  for (const name of ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'])
    expect(isTimeZone(name)).toBe(true);
  for (const name of ['', 'Mars/Olympus', '+02:00', 'Europe/Berlin\n', 'x'.repeat(100)])
    expect(isTimeZone(name)).toBe(false);
});
