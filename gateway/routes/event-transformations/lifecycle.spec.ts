import { describe, expect, it } from 'vitest';
import { judge } from './lifecycle.ts';

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
    expect(judge(ran({ a: 1 }), { a: 1 })).toEqual(active);
    expect(judge(ran({ a: 1 }), [{ a: 1 }])).toEqual(active);
    expect(judge(ran({ a: 1 }, { a: 2 }), [{ a: 1 }, { a: 2 }])).toEqual(active);
  });

  it('takes an empty array for a dropped event', () => {
    expect(judge(ran(), [])).toEqual(active);
    expect(judge(ran(), { a: 1 })).toEqual(draft('output: returned 0 events, test_output has 1 event'));
  });

  it('says where the output differs', () => {
    expect(judge(ran({ a: { b: 1 } }), { a: { b: 2 } })).toEqual(
      draft('output: differs from test_output at /a/b'),
    );
    expect(judge(ran({ a: 1 }, { a: 2 }), [{ a: 1 }, { a: 3 }])).toEqual(
      draft('output: differs from test_output at /1/a'),
    );
  });

  it('compares as JSON, where -0 is 0', () => {
    expect(judge(ran({ a: 0 }), { a: -0 })).toEqual(active);
  });

  it('says how the run failed', () => {
    expect(
      judge({ ok: false, kind: 'threw', message: 'boom', logs: [], durationMs: 1, loadMs: 0 }, { a: 1 }),
    ).toEqual(draft('threw: boom'));
  });
});
