import type { Json } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { evaluateRun, firstDifference } from './transformation-test.ts';

const ran = (...outputs: readonly unknown[]) =>
  ({
    ok: true,
    outputs: outputs.map((output) => JSON.stringify(output)),
    logs: [],
    durationMs: 1,
    loadMs: 0,
  }) as const;

const active = { status: 'active', test_error: null, last_error: null };
const draft = (test_error: string) => ({ status: 'draft', test_error, last_error: null });

describe('judge', () => {
  it('takes one event for an object or an array of one', () => {
    expect(evaluateRun(ran({ a: 1 }), { a: 1 })).toEqual(active);
    expect(evaluateRun(ran({ a: 1 }), [{ a: 1 }])).toEqual(active);
    expect(evaluateRun(ran({ a: 1 }, { a: 2 }), [{ a: 1 }, { a: 2 }])).toEqual(active);
  });

  it('takes an empty array for a dropped event', () => {
    expect(evaluateRun(ran(), [])).toEqual(active);
    expect(evaluateRun(ran(), { a: 1 })).toEqual(draft('output: returned 0 events, test_output has 1 event'));
  });

  it('states where the output differs', () => {
    expect(evaluateRun(ran({ a: { b: 1 } }), { a: { b: 2 } })).toEqual(
      draft('output: differs from test_output at /a/b'),
    );
    expect(evaluateRun(ran({ a: 1 }, { a: 2 }), [{ a: 1 }, { a: 3 }])).toEqual(
      draft('output: differs from test_output at /1/a'),
    );
  });

  it('compares as JSON, where -0 is 0', () => {
    expect(evaluateRun(ran({ a: 0 }), { a: -0 })).toEqual(active);
  });

  it('states how the run failed', () => {
    expect(
      evaluateRun(
        { ok: false, kind: 'threw', message: 'boom', logs: [], durationMs: 1, loadMs: 0 },
        { a: 1 },
      ),
    ).toEqual(draft('threw: boom'));
  });
});

describe('firstDifference', () => {
  it.each<[Json, Json, string | undefined]>([
    [{ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, undefined],
    [1, 2, ''],
    [[1], { 0: 1 }, ''],
    [{ a: { b: 1 } }, { a: { b: '1' } }, '/a/b'],
    [{ a: 1 }, { a: 1, b: null }, '/b'],
    [{ a: 1, b: null }, { a: 1 }, '/b'],
    [[{ x: 1 }, { x: 2 }], [{ x: 1 }, { x: 3 }], '/1/x'],
    [{ 'a/b~': 1 }, { 'a/b~': 2 }, '/a~1b~0'],
    [JSON.parse('{"constructor":1}'), {}, '/constructor'],
  ])('of %j and %j is %j', (actual, expected, place) => {
    expect(firstDifference(actual, expected)).toBe(place);
  });

  it('finds none between a value and its copy with members in another order', () => {
    const reversed = (value: Json): Json => {
      if (typeof value !== 'object' || value === null) return value;
      if (Array.isArray(value)) return value.map(reversed);
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, member]) => [key, reversed(member)]),
      );
    };
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.parse(JSON.stringify(value)) as Json;
        expect(firstDifference(json, reversed(json))).toBeUndefined();
      }),
    );
  });
});
