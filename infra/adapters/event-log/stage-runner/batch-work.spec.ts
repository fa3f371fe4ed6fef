import { POISON_ATTEMPTS } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SplitPlan } from './batch-work.ts';

/** Runs a plan against a stage that throws for some entries. */
function play(length: number, guilty: ReadonlySet<number>) {
  const plan = new SplitPlan(length);
  const done: number[] = [];
  const poisoned: number[] = [];
  const dispatchedAlone = new Map<number, number>();
  let calls = 0;
  for (let part = plan.next(); part; part = plan.next()) {
    calls++;
    const entries = Array.from({ length: part.to - part.from }, (_, i) => part.from + i);
    const [first] = entries;
    if (entries.length === 1 && first !== undefined)
      dispatchedAlone.set(first, (dispatchedAlone.get(first) ?? 0) + 1);
    if (!entries.some((entry) => guilty.has(entry))) {
      done.push(...entries);
      plan.done();
    } else if (plan.threw().kind === 'poison') {
      poisoned.push(...entries);
      plan.done();
    }
  }
  return { done, poisoned, dispatchedAlone, calls };
}

describe('split plan', () => {
  it('finds one guilty entry among a thousand in few calls', () => {
    const { done, poisoned, calls } = play(1_000, new Set([617]));
    expect(poisoned).toEqual([617]);
    expect(done).toHaveLength(999);
    expect(calls).toBeLessThan(30);
  });

  it('dead-letters the guilty entries alone, each after its attempts, and does the others once and in order', () => {
    const batch = fc.integer({ min: 0, max: 60 }).chain((length) =>
      fc.record({
        length: fc.constant(length),
        guilty: fc.uniqueArray(fc.integer({ min: 0, max: Math.max(0, length - 1) }), { maxLength: length }),
      }),
    );
    fc.assert(
      fc.property(batch, ({ length, guilty }) => {
        const { done, poisoned, dispatchedAlone } = play(length, new Set(guilty));
        const innocent = Array.from({ length }, (_, i) => i).filter((i) => !guilty.includes(i));
        expect(done).toEqual(innocent);
        expect(poisoned).toEqual(guilty.toSorted((a, b) => a - b));
        for (const entry of guilty) expect(dispatchedAlone.get(entry)).toBe(POISON_ATTEMPTS);
      }),
    );
  });
});
