import type { SandboxResult } from '@tributary/core';
import { expect, it } from 'vitest';
import { CallSize } from './output-limits.ts';

function results(events: number, chars: number): readonly SandboxResult[] {
  return Array.from({ length: events }, () => ({
    ok: true,
    outputs: ['x'.repeat(chars)],
    logs: [],
    durationMs: 0,
    loadMs: 0,
  }));
}

it('starts small and doubles while outputs stay small', () => {
  const size = new CallSize();
  const sizes = Array.from({ length: 6 }, () => {
    size.note(results(size.events, 300));
    return size.events;
  });
  expect(sizes).toEqual([8, 16, 32, 64, 128, 256]);
});

it('does not grow by calls that were smaller than allowed', () => {
  const size = new CallSize();
  for (let call = 0; call < 10; call++) size.note(results(1, 300));
  expect(size.events).toBe(4);
});

it('shrinks at once to a few MB of output, and never trusts a program again that made much of one event', () => {
  const size = new CallSize();
  for (let call = 0; call < 4; call++) size.note(results(size.events, 300));
  size.note(results(size.events, 3_200_000));
  expect(size.events).toBe(1);
  for (let call = 0; call < 20; call++) size.note(results(size.events, 300));
  expect(size.events).toBe(10);
});

it('counts a failure as a run without output', () => {
  const size = new CallSize();
  size.note(
    Array.from({ length: 4 }, () => ({
      ok: false,
      kind: 'threw',
      message: '',
      logs: [],
      durationMs: 0,
      loadMs: 0,
    })),
  );
  expect(size.events).toBe(8);
});
