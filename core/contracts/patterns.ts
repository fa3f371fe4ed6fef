import { RE2JS } from 're2js';
import { withEcmaScriptClasses } from './ecmascript-pattern.ts';
import { hasFewStates } from './pattern-states.ts';
import type { WorkMeter } from './work-meter.ts';

/** A regular expression that runs in time linear in the text. */
export interface Pattern {
  test(text: string): boolean;
  /** The source; what the schema compiler tells patterns apart by. */
  toString(): string;
}

/** Bytes of states one pattern may keep; past it the engine starts its table anew. */
export const PATTERN_MEMORY = 64 * 1024;

/** Characters of a pattern at most: a short one can already stand for a large program. */
export const MAX_PATTERN_LENGTH = 1_000;

/** A pattern that is asked, each character of the text, and each instruction where a character makes a new state. */
const WORK_PER_PATTERN = 15;
const WORK_PER_CHARACTER = 3;
const WORK_PER_INSTRUCTION = 3;

function translate(source: string): RE2JS {
  return RE2JS.compile(RE2JS.translateRegExp(withEcmaScriptClasses(source)));
}

/**
 * Compiles an ECMAScript regular expression for RE2, which knows no look-around and no back-references. Matches
 * anywhere in the text, as JSON Schema wants it. Throws when the pattern cannot be run; see `readPattern`.
 */
export function compilePattern(source: string, meter: WorkMeter): Pattern {
  const compiled = translate(source);
  const automaton = compiled.re2().dfa;
  automaton.stateBudget = PATTERN_MEMORY;
  automaton.memBudget = PATTERN_MEMORY;
  const perCharacter =
    compiled.re2().onepass !== null || hasFewStates(automaton)
      ? WORK_PER_CHARACTER
      : WORK_PER_CHARACTER + WORK_PER_INSTRUCTION * compiled.programSize();
  return {
    test(text) {
      meter.spend(WORK_PER_PATTERN + text.length * perCharacter);
      return compiled.test(text);
    },
    toString: () => source,
  };
}

/** How large a program the pattern becomes, in instructions, or why it cannot be used. */
export function readPattern(source: string): { readonly size: number } | { readonly fault: string } {
  if (source.length > MAX_PATTERN_LENGTH) {
    return { fault: `must be a pattern of at most ${MAX_PATTERN_LENGTH} characters` };
  }
  try {
    new RegExp(source);
  } catch {
    return { fault: 'must be a regular expression' };
  }
  try {
    return { size: translate(source).programSize() };
  } catch {
    return {
      fault:
        'must run in linear time: no look-around, no back-reference, no repeat above 1000, no long class name',
    };
  }
}
