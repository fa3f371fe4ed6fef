import type { RE2JS } from 're2js';

type Automaton = ReturnType<RE2JS['re2']>['dfa'];

interface State {
  readonly nfaStates: readonly number[];
}

/** Instructions looked at until a pattern counts as one of many states: a tenth of a millisecond. */
const MOST_LOOKS = 5_000;
/** What the engine calls a search that may begin anywhere, and the flags of a text's begin. */
const UNANCHORED = 0;
const AT_BEGIN = 5;
/** What it calls the end of a text. */
const END_TEXT = -1;

/**
 * Whether all states of a pattern's automaton fit into its memory, found by making them: each character of any text
 * is then one look-up. Where they do not, as in `(a|b)*a(a|b){20}`, a text can be had that makes a new one with every
 * character, which takes as long as the pattern is. It depends on the pattern alone; so do the `looks` that it took.
 */
export function exploreStates(automaton: Automaton): { readonly areFew: boolean; readonly looks: number } {
  let looks = 0;
  const many = () => ({ areFew: false, looks });
  if (automaton.failed) return many();
  const start = automaton.makeState([automaton.prog.start], AT_BEGIN, []) as State | null;
  if (start === null) return many();
  const found = new Set([start]);
  for (const state of found) {
    for (let kind = 0; kind <= automaton.numClasses; kind++) {
      looks += 1 + state.nfaStates.length;
      if (looks > MOST_LOOKS) return many();
      const next = automaton.step(state, kind, firstOf(automaton, kind), UNANCHORED) as State | null;
      if (next === null) return many();
      found.add(next);
    }
  }
  return { areFew: true, looks };
}

/** A character of each kind that the pattern tells apart; the last kind is the end. */
function firstOf({ classBounds, numClasses }: Automaton, kind: number): number {
  if (kind === numClasses) return END_TEXT;
  return kind === 0 ? 0 : (classBounds[kind - 1] ?? 0);
}
