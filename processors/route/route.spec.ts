import type { Rule } from '@tributary/core';
import { expect, it } from 'vitest';
import { type Applied, RulesInPieces } from './route.ts';
import type { Routed } from './routed-event.ts';

const RULE_MS = 0.1;

it.each([true, false])(
  '200 rules without a transformation held the thread until all of them were applied: others get it in between (in promises: %s)',
  async (isPromise) => {
    let [elapsed, inThisTurn, most, isOver] = [0, 0, 0, false];
    const turn = () => {
      inThisTurn = 0;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const apply = () => {
      elapsed += RULE_MS;
      most = Math.max(most, ++inThisTurn);
      const applied: Applied = { notTaken: 'environment' };
      return isPromise ? Promise.resolve(applied) : applied;
    };
    const routed = { source: { counted: {} }, redrives: 0, notes: [] } as unknown as Routed;
    const rules = Array.from({ length: 200 }, (_, n) => ({ id: `${n}` }) as Rule);
    const limits = { elapsed: () => elapsed, slowAfterMs: Number.POSITIVE_INFINITY };
    const { left } = await new RulesInPieces(routed, rules, apply, limits).run();
    isOver = true;
    expect([routed.notes.length, left]).toEqual([200, []]);
    expect(most * RULE_MS).toBeLessThan(4);
  },
);
