import { describe, expect, it } from 'vitest';
import { parseLadder } from './retry.ts';
import { turnOf } from './turns.ts';

const LADDER = parseLadder(['10s', '1m', '10m']);

/** A destination that takes one delivery each `eachMs`, holds `held` of them, and puts aside what comes beyond. */
function simulate(count: number, eachMs: number, heldMs: number) {
  const held: number[] = [];
  let aside = Array.from({ length: count }, () => ({
    back: 0,
    turn: undefined as number | undefined,
    waits: 0,
  }));
  let [horizon, idle, writes, most] = [0, 0, 0, 0];
  let now = 0;
  for (; aside.length > 0 || held.length > 0; now += eachMs) {
    const come = aside.filter(({ back }) => back <= now);
    aside = aside.filter(({ back }) => back > now);
    for (const one of come) {
      const waitMs = held.length * eachMs;
      const dueMs = one.turn === undefined ? heldMs : heldMs * 2;
      if (waitMs <= dueMs) held.push(one.waits);
      else {
        const turn = turnOf({ now, waitMs, eachMs, horizon, turn: one.turn, ladder: LADDER });
        horizon = turn.horizon;
        writes += 1;
        aside.push({ back: now + turn.step.ms * 1.1, turn: turn.at, waits: one.waits + 1 });
      }
    }
    const served = held.shift();
    if (served === undefined) idle += 1;
    else most = Math.max(most, served);
  }
  return { seconds: now / 1_000, idle, writes, most };
}

describe('the turn of what a destination has no room for', () => {
  it('lies behind the turns given before, and is kept', () => {
    const question = { now: 1_000, waitMs: 12_000, eachMs: 100, horizon: 0, turn: undefined, ladder: LADDER };
    const first = turnOf(question);
    expect(first).toEqual({ at: 13_000, step: LADDER[0], horizon: 13_100 });
    const second = turnOf({ ...question, horizon: first.horizon });
    expect(second.at).toBe(13_100);
    const again = turnOf({ ...question, now: 9_000, horizon: 99_999, turn: second.at });
    expect(again).toEqual({ at: 13_100, step: LADDER[0], horizon: 99_999 });
  });

  it.each([
    [61_000, 1],
    [599_000, 1],
    [601_000, 2],
    [9e9, 2],
    [-5, 0],
  ])('%d ms before its turn it waits on the longest step that ends before', (aheadMs, step) => {
    const turn = turnOf({ now: 0, waitMs: 0, eachMs: 1, horizon: 0, turn: aheadMs, ladder: LADDER });
    expect(turn.step).toBe(LADDER[step]);
  });

  it('a backlog of half an hour keeps the destination busy to the end, with few writes a delivery', () => {
    const { idle, writes, most, seconds } = simulate(1_800, 1_000, 12_000);
    console.log(`1,800 at one a second: ${seconds} s, idle ${idle} s, ${writes / 1_800} writes each`);
    expect(idle).toBeLessThan(seconds * 0.05);
    expect(writes / 1_800).toBeLessThan(12);
    expect(most).toBeLessThan(100);
  });
});
