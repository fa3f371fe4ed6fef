import { afterEach, expect, it, vi } from 'vitest';
import type { Fact } from './facts.ts';
import { applyFact } from './fold.ts';
import { contract, destination, rule, workspace, writeKey } from './samples.ts';
import { CatalogState } from './state.ts';

afterEach(() => vi.restoreAllMocks());

/** A catalog with the same in every workspace. */
function catalogOf(workspaces: number): CatalogState {
  const state = new CatalogState();
  let position = 0;
  const add = (fact: Fact) => {
    if (!applyFact(state, fact, position++).applied) throw new Error(`${fact.type} was refused`);
  };
  for (let w = 0; w < workspaces; w++) {
    const id = `w${w}`;
    add(workspace(id, `o${w}`));
    for (let n = 0; n < 5; n++) add(writeKey(`k${w}-${n}`, `h${w}-${n}`, id));
    for (let n = 0; n < 3; n++) add(contract(`c${w}-${n}`, `event ${n}`, id));
    add(destination(`d${w}`, id));
    for (let n = 0; n < 2; n++) add(rule(`r${w}-${n}`, `d${w}`, null, true, id));
  }
  return state;
}

/** How many steps through maps an event's look-ups take. Counted, not timed: a busy machine changes nothing. */
function stepsOf(state: CatalogState, w: number): number {
  const lookUp = () => [
    state.keyByHash(`h${w}-4`)?.key.id,
    state.contractAt(`w${w}`, 'track', 'event 2', 1_000_000)?.id,
    state.enabledRules(`w${w}`).length,
    state.workspaceRole('a1', `w${w}`),
    state.destination(`d${w}`)?.id,
    state.organizationNumbered(w + 1)?.id,
  ];
  expect(lookUp()).toEqual([`k${w}-4`, `c${w}-2`, 2, 'admin', `d${w}`, `o${w}`]);
  let steps = 0;
  for (const method of ['get', 'has'] as const) {
    const original = Map.prototype[method];
    vi.spyOn(Map.prototype, method).mockImplementation(function (this: Map<unknown, unknown>, key: unknown) {
      steps++;
      return Reflect.apply(original, this, [key]) as never;
    });
  }
  for (const method of ['values', 'keys', 'entries', 'forEach', Symbol.iterator] as const)
    vi.spyOn(Map.prototype, method).mockImplementation(() => {
      throw new Error('a look-up went through a whole map');
    });
  lookUp();
  vi.restoreAllMocks();
  return steps;
}

it('takes as many steps for an event among a thousand workspaces as among two', () => {
  const steps = stepsOf(catalogOf(2), 1);
  expect(steps).toBeGreaterThan(0);
  const large = catalogOf(1_000);
  for (const w of [0, 500, 999]) expect(stepsOf(large, w)).toBe(steps);
});
