import { RE2JS } from 're2js';
import { withEcmaScriptClasses } from './ecmascript-pattern.ts';
import { exploreStates } from './pattern-states.ts';
import type { WorkMeter } from './work-meter.ts';

/** A regular expression that runs in time linear in the text. */
export interface Pattern {
  test(text: string): boolean;
  /** The source; what the schema compiler tells patterns apart by. */
  toString(): string;
  /** Instructions of its program. */
  readonly size: number;
  /** What compiling it took, in units of compile work; depends on the source alone. */
  readonly compileWork: number;
  /** Bytes of heap it may come to hold. */
  readonly bytes: number;
}

/** Bytes of states one pattern may keep; past it the engine starts its table anew. */
export const PATTERN_MEMORY = 64 * 1024;

/** Characters of a pattern at most: a short one can already stand for a large program. */
export const MAX_PATTERN_LENGTH = 1_000;

/** A pattern that is asked, each character of the text, and each instruction where a character makes a new state. */
const WORK_PER_PATTERN = 15;
const WORK_PER_CHARACTER = 3;
const WORK_PER_INSTRUCTION = 3;

/** Units of compile work: of any pattern, and the instructions, character ranges and state look-ups that are one more. */
const COMPILE_WORK_PER_PATTERN = 8;
const INSTRUCTIONS_PER_UNIT = 40;
const RANGES_PER_UNIT = 100;
const LOOKS_PER_UNIT = 150;

const BYTES_PER_PATTERN = 4 * 1024;
const BYTES_PER_INSTRUCTION = 300;
const BYTES_PER_RANGE = 40;

/**
 * Compiles an ECMAScript regular expression for RE2, which knows no look-around and no back-references. Matches
 * anywhere in the text, as JSON Schema wants it. Throws when the pattern cannot be run; see `readPattern`.
 */
export function compilePattern(source: string, meter: WorkMeter): Pattern {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(withEcmaScriptClasses(source)));
  const size = compiled.programSize();
  const engine = compiled.re2();
  let perCharacter = WORK_PER_CHARACTER;
  let [looks, ranges, memory] = [0, rangesIn(engine.prog), 0];
  // A pattern whose next step is always certain needs no states.
  if (engine.onepass === null) {
    const automaton = engine.dfa;
    automaton.stateBudget = PATTERN_MEMORY;
    automaton.memBudget = PATTERN_MEMORY;
    const states = exploreStates(automaton);
    looks = states.looks;
    ranges += automaton.numClasses;
    memory = states.areFew ? PATTERN_MEMORY - automaton.memBudget : PATTERN_MEMORY;
    if (!states.areFew) perCharacter += WORK_PER_INSTRUCTION * size;
  }
  return {
    test(text) {
      meter.spend(WORK_PER_PATTERN + text.length * perCharacter);
      return compiled.test(text);
    },
    toString: () => source,
    size,
    compileWork:
      COMPILE_WORK_PER_PATTERN +
      Math.trunc(size / INSTRUCTIONS_PER_UNIT + ranges / RANGES_PER_UNIT + looks / LOOKS_PER_UNIT),
    bytes: BYTES_PER_PATTERN + BYTES_PER_INSTRUCTION * size + BYTES_PER_RANGE * ranges + memory,
  };
}

/** The ranges of characters that the instructions of a program tell apart: `\p{L}` alone has hundreds. */
function rangesIn(program: {
  numInst(): number;
  getInst(at: number): { runes?: readonly number[] | null };
}): number {
  let ranges = 0;
  for (let at = 0; at < program.numInst(); at++) ranges += (program.getInst(at).runes?.length ?? 0) >> 1;
  return ranges;
}

/** The compiled pattern of a source, or why it cannot be used. */
export function readPattern(
  source: string,
  compile: (source: string) => Pattern,
): { readonly pattern: Pattern } | { readonly fault: string } {
  if (source.length > MAX_PATTERN_LENGTH) {
    return { fault: `must be a pattern of at most ${MAX_PATTERN_LENGTH} characters` };
  }
  try {
    new RegExp(source);
  } catch {
    return { fault: 'must be a regular expression' };
  }
  try {
    return { pattern: compile(source) };
  } catch {
    return {
      fault:
        'must run in linear time: no look-around, no back-reference, no repeat above 1000, no long class name',
    };
  }
}
