import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairBudget, type Permit } from './fair-budget.ts';

/** A budget of 1,200 with permits that may be ended unless they are `done`. */
function setUp(largestShare = 3 / 4, capacity = 1_200) {
  const budget = new FairBudget({ capacity, largestShare });
  const ended: string[] = [];
  const begin = (owners: string, amount: number, done = false) => {
    const name = `${owners}:${amount}`;
    const state = { isDone: done };
    const permit = budget.open(owners.split('/'), {
      mayEnd: () => !state.isDone,
      onEnded: () => ended.push(name),
    });
    return { permit, admitted: permit.resize(amount), finish: () => (state.isDone = true) };
  };
  const beginMany = (owners: string, amount: number, many: number, done = false) =>
    Array.from({ length: many }, () => begin(owners, amount, done)).filter(({ admitted }) => admitted).length;
  return { budget, begin, beginMany, ended };
}

describe('a fair budget', () => {
  it('gives one owner most of it while no other needs it, and no more', () => {
    const { beginMany, budget, ended } = setUp();
    expect(beginMany('a', 10, 200)).toBe(90);
    expect(budget.used).toBe(900);
    expect(ended).toEqual([]);
  });

  it('gives one owner all of it where that is its largest share', () => {
    const { beginMany } = setUp(1);
    expect(beginMany('a', 10, 200)).toBe(120);
  });

  it('was full of one owner’s unfinished work: an owner below its fair share is admitted, the oldest is ended', () => {
    const { begin, beginMany, budget, ended } = setUp(1);
    const first = begin('a', 60);
    expect(beginMany('a', 114, 10)).toBe(10);
    expect(begin('b', 50).admitted).toBe(true);
    expect(ended).toEqual(['a:60']);
    expect(first.permit.resize(10)).toBe(true); // an ended permit holds no budget
    expect(budget.used).toBe(1_140 + 50);
    expect(beginMany('b', 50, 20)).toBe(7);
    expect(budget.used).toBeLessThanOrEqual(1_200);
  });

  it('ends nothing that is finished, and nothing of an owner within its share', () => {
    const { begin, beginMany, ended } = setUp(1);
    expect(beginMany('a', 10, 120, true)).toBe(120);
    expect(begin('b', 10).admitted).toBe(false);
    const other = setUp(1);
    expect(other.beginMany('a', 390, 1)).toBe(1);
    expect(other.beginMany('b', 390, 1)).toBe(1);
    expect(other.begin('c', 430).admitted).toBe(false);
    expect(other.beginMany('c', 300, 1)).toBe(1);
    expect([...ended, ...other.ended]).toEqual([]);
  });

  it('keeps room for newcomers while one owner holds finished work alone', () => {
    const { begin, beginMany } = setUp();
    expect(beginMany('a', 10, 200, true)).toBe(90);
    for (const name of ['b', 'c', 'd']) expect(begin(name, 40, true).admitted).toBe(true);
  });

  it('counts many inner owners of one outer owner together', () => {
    const { begin, beginMany } = setUp();
    for (let key = 0; key < 50; key++) beginMany(`a/k${key}`, 30, 5);
    expect(beginMany('b/k', 30, 20)).toBe(13);
    expect(begin('a/k0', 400).admitted).toBe(false);
  });

  it('was taken by one inner owner for its siblings too: they are admitted in its place', () => {
    const { begin, beginMany, ended } = setUp();
    expect(beginMany('a/browser/1', 10, 200)).toBeGreaterThan(50);
    const before = beginMany('b/k/2', 10, 100);
    expect(before).toBeGreaterThan(20);
    for (let n = 0; n < 10; n++) expect(begin('a/server/3', 10).admitted).toBe(true);
    expect(ended.every((name) => name.startsWith('a/browser') || name.startsWith('b/k'))).toBe(true);
    expect(begin('a/browser/9', 10).admitted).toBe(true);
  });

  it('never hands out more than its capacity, keeps every owner’s share and has all of it in the end', () => {
    const step = fc.record({
      at: fc.nat(30),
      owners: fc.constantFrom('a', 'b', 'c/1', 'c/2', 'd/1/x', 'd/1/y', 'd/2/x'),
      amount: fc.nat(300),
      act: fc.constantFrom('resize', 'resize', 'resize', 'finish', 'release'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.constantFrom(0.5, 0.75, 1), (steps, share) => {
        const budget = new FairBudget({ capacity: 1_000, largestShare: share });
        const held = new Map<number, { permit: Permit; owner: string; amount: number; done: boolean }>();
        const sumOf = (owner?: string) =>
          [...held.values()]
            .filter((one) => owner === undefined || one.owner === owner)
            .reduce((sum, one) => sum + one.amount, 0);
        for (const { at, owners, amount, act } of steps) {
          let own = held.get(at);
          if (own === undefined) {
            const made = { owner: owners.split('/')[0] ?? '', amount: 0, done: false };
            const permit = budget.open(owners.split('/'), {
              mayEnd: () => !made.done,
              onEnded: () => held.delete(at),
            });
            own = Object.assign(made, { permit });
            held.set(at, own);
          }
          if (act === 'finish') own.done = true;
          if (act === 'release') {
            own.permit.release();
            held.delete(at);
          }
          if (act === 'resize') {
            const others = new Set(
              [...held.values()].filter((one) => one.amount > 0).map((one) => one.owner),
            );
            const wanted = sumOf(own.owner) - own.amount + amount;
            const fair = 1_000 / (new Set([...others, own.owner]).size + 1);
            const endable = [...held.values()].every(({ done }) => !done);
            const isInner = owners.includes('/') || own.owner === 'c' || own.owner === 'd';
            const admitted = own.permit.resize(amount);
            if (admitted) own.amount = amount;
            // An owner without inner owners, competing with work that may all be ended.
            if (!isInner && endable && wanted <= fair) expect(admitted).toBe(true);
          }
          expect(budget.used).toBe(sumOf());
          expect(budget.used).toBeLessThanOrEqual(1_000);
        }
        for (const { permit } of held.values()) permit.release();
        expect(budget.used).toBe(0);
        const all = new FairBudget({ capacity: 1_000, largestShare: 1 }).open(['z']);
        expect(all.resize(1_000)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
