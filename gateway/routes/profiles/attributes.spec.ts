import type { JsonObject } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { ErrorDetail } from '../../errors/api-error.ts';
import { readAttributes } from './write.ts';

const NOW = Date.parse('2026-04-05T06:07:08.090Z');
const DAY_MS = 86_400_000;

function read(profile: JsonObject, nulls?: 'keep') {
  const faults: ErrorDetail[] = [];
  return { attributes: readAttributes(profile, '/upsert/profile', faults, NOW, nulls), faults };
}

describe('the attributes of a body', () => {
  it('are the members of its categories, of any JSON', () => {
    const { attributes } = read(
      { home: { city: 'Bonn', geo: { lat: 50.7 } }, none: { at_all: null } },
      'keep',
    );
    expect(attributes).toEqual([
      { path: ['home', 'city'], value: 'Bonn' },
      { path: ['home', 'geo'], value: { lat: 50.7 } },
      { path: ['none', 'at_all'], value: null },
    ]);
  });

  it('are the categories themselves where those are not objects', () => {
    expect(read({ tier: 'gold', tags: ['a'], gone: null }, 'keep').attributes).toEqual([
      { path: ['tier'], value: 'gold' },
      { path: ['tags'], value: ['a'] },
      { path: ['gone'], value: null },
    ]);
  });

  it('could not be taken away: null was a value like any other', () => {
    expect(read({ home: { city: null, geo: { lat: null }, _ts: 9 }, tier: null }).attributes).toEqual([
      { path: ['home', 'city'], value: null, unset: true, ts: 9 },
      { path: ['home', 'geo'], value: { lat: null }, ts: 9 },
      { path: ['tier'], value: null, unset: true },
    ]);
  });

  it('say that a category is there when it has no members', () => {
    expect(read({ home: {}, work: { _ts: '7' } }).attributes).toEqual([
      { path: ['home'], value: {} },
      { path: ['work'], value: {}, ts: 7 },
    ]);
  });

  it('have a time of their own as an object with value and _ts, else that of the whole', () => {
    const profile = {
      _ts: 5,
      home: { city: { value: null, _ts: '7' }, floor: 2 },
      tier: 'x',
      a: { b: 1, _ts: 6 },
    };
    expect(read(profile).attributes).toEqual([
      { path: ['home', 'city'], value: null, unset: true, ts: 7 },
      { path: ['home', 'floor'], value: 2, ts: 5 },
      { path: ['tier'], value: 'x', ts: 5 },
      { path: ['a', 'b'], value: 1, ts: 6 },
    ]);
    const [other] = read({ home: { city: { value: 1, _ts: 7, more: 2 } } }).attributes;
    expect(other).toEqual({ path: ['home', 'city'], value: { value: 1, _ts: 7, more: 2 } });
  });

  it.each([
    null,
    true,
    '',
    ' 7',
    '7.0',
    '1e3',
    '-1',
    -1,
    1.5,
    8.64e15 + 1,
    '9999999999999999',
    2 ** 80,
    ['7'],
    {},
  ])('have no time that is %j', (_ts) => {
    const { faults } = read({ home: { city: 'Bonn', _ts } });
    expect(faults.map(({ path }) => path)).toEqual(['/upsert/profile/home/_ts']);
  });

  it.each([
    ['seconds', 1_774_848_000, 'is in seconds, in milliseconds it is 1774848000000'],
    ['seconds as text', '1300000000', 'is in seconds, in milliseconds it is 1300000000000'],
    ['microseconds', 1_774_848_000_123_456, 'is in microseconds, in milliseconds it is 1774848000123'],
    ['nanoseconds', '1774848000123456789', 'is in nanoseconds, in milliseconds it is 1774848000123'],
    ['two days ahead', NOW + 2 * DAY_MS, 'is more than a day in the future'],
    ['a year ahead in microseconds', (NOW + 400 * DAY_MS) * 1_000, 'is more than a day in the future'],
  ])('silenced all later writes, or lost, at a time in %s', (_, _ts, message) => {
    const { faults } = read({ home: { city: 'Bonn', _ts } });
    expect(faults).toEqual([{ path: '/upsert/profile/home/_ts', message }]);
  });

  it.each([0, 1, 99_999_999, 1e11, NOW, NOW + DAY_MS])('may be of the time %d', (_ts) => {
    expect(read({ home: { city: 'Bonn', _ts } }).attributes).toEqual([
      { path: ['home', 'city'], value: 'Bonn', ts: _ts },
    ]);
  });
});
