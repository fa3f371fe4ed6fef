import { RE2JS } from 're2js';
import type { WorkMeter } from '../work.ts';

/** A regular expression that runs in time linear in the text. */
export interface Pattern {
  test(text: string): boolean;
  /** The source, by which the schema compiler identifies the pattern. */
  toString(): string;
  /** Instructions of its program. */
  readonly size: number;
  /** Depends on the source alone. */
  readonly compileWork: number;
  /** Bytes of heap that it may grow to. */
  readonly bytes: number;
}

/** Bytes of automaton states that one pattern may keep; beyond it the engine discards them and starts again. */
const PATTERN_MEMORY = 64 * 1024;

/** Characters of a pattern. */
export const MAX_PATTERN_LENGTH = 1_000;
/** Instructions of a new pattern, about: it compiles within some 50 ms. */
const MAX_PATTERN_SIZE = 10_000;

/** Units of evaluation work: a test, a character of the text, and an instruction where each character may make a new state. */
const WORK_PER_PATTERN = 15;
const WORK_PER_CHARACTER = 3;
const WORK_PER_INSTRUCTION = 3;

/** Units of compile work: of any pattern, and the instructions, character ranges and explored steps that are one more. */
const COMPILE_WORK_PER_PATTERN = 8;
const INSTRUCTIONS_PER_UNIT = 40;
const RANGES_PER_UNIT = 100;
const STEPS_PER_UNIT = 150;

const BYTES_PER_PATTERN = 4 * 1024;
const BYTES_PER_INSTRUCTION = 300;
const BYTES_PER_RANGE = 40;

/**
 * Compiles an ECMAScript regular expression for RE2, which has neither look-around nor back-references. Matches anywhere
 * in the text, as JSON Schema demands. Throws when RE2 cannot run the pattern; see `readPattern`.
 */
export function compilePattern(source: string, meter: WorkMeter): Pattern {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(withEcmaScriptClasses(source)));
  const size = compiled.programSize();
  const engine = compiled.re2();
  let perCharacter = WORK_PER_CHARACTER;
  let [steps, ranges, memory] = [0, rangesIn(engine.prog), 0];
  // A one-pass pattern runs without an automaton.
  if (engine.onepass === null) {
    const automaton = engine.dfa;
    automaton.stateBudget = PATTERN_MEMORY;
    automaton.memBudget = PATTERN_MEMORY;
    const states = exploreStates(automaton);
    steps = states.steps;
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
      Math.trunc(size / INSTRUCTIONS_PER_UNIT + ranges / RANGES_PER_UNIT + steps / STEPS_PER_UNIT),
    bytes: BYTES_PER_PATTERN + BYTES_PER_INSTRUCTION * size + BYTES_PER_RANGE * ranges + memory,
  };
}

/** Character ranges in the instructions of a program: `\p{L}` alone has hundreds. */
function rangesIn(program: {
  numInst(): number;
  getInst(at: number): { runes?: readonly number[] | null };
}): number {
  let ranges = 0;
  for (let at = 0; at < program.numInst(); at++) ranges += (program.getInst(at).runes?.length ?? 0) >> 1;
  return ranges;
}

/** A character or an escape, a class, a repeat, or a parenthesis. */
const PARTS = /\\(?:[pP]\{[^}]*\}|[\s\S])|\[(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g;

/** About how many instructions a pattern has with its repeats written out: to compile it takes as long. */
function writtenOut(source: string): number {
  const groups = [0];
  let last = 0;
  for (const [part, least, most] of source.matchAll(PARTS)) {
    if (part === '(') groups.push(0);
    if (least !== undefined) last *= Math.max(1, Number(least), Number(most || 0)) - 1;
    else if (part === ')') last = groups.pop() ?? 0;
    else last = part === '(' ? 0 : 1;
    groups.push((groups.pop() ?? 0) + last);
    if (least !== undefined) last = 0;
  }
  return groups.reduce((sum, each) => sum + each, 0);
}

/** The compiled pattern of a source, or why it cannot be used in a contract. `maxSize`: in instructions. */
export function readPattern(
  source: string,
  compile: (source: string) => Pattern,
  maxSize = MAX_PATTERN_SIZE,
): { readonly pattern: Pattern } | { readonly fault: string } {
  if (source.length > MAX_PATTERN_LENGTH) {
    return { fault: `must be a pattern of at most ${MAX_PATTERN_LENGTH} characters` };
  }
  try {
    new RegExp(source);
  } catch {
    return { fault: 'must be a regular expression' };
  }
  if (writtenOut(source) > maxSize) return { fault: 'must be smaller: its repeats are too many' };
  try {
    return { pattern: compile(source) };
  } catch {
    return {
      fault:
        'must run in linear time: no look-around, no back-reference, no repeat above 1000, no long class name',
    };
  }
}

/** The members of `\s` in ECMAScript; in RE2 it has the five of ASCII only. */
const SPACE =
  '\\t\\n\\x0b\\f\\r \\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}';
/** The members of `\S`. */
const NO_SPACE = [
  ...[
    '\\x00-\\x08',
    '\\x0e-\\x1f',
    '!-\\x9f',
    '\\xa1-\\x{167f}',
    '\\x{1681}-\\x{1fff}',
    '\\x{200b}-\\x{2027}',
  ],
  ...[
    '\\x{202a}-\\x{202e}',
    '\\x{2030}-\\x{205e}',
    '\\x{2060}-\\x{2fff}',
    '\\x{3001}-\\x{fefe}',
    '\\x{ff00}-\\x{10ffff}',
  ],
].join('');
/** `.` excludes every line terminator in ECMAScript, in RE2 the line feed alone. */
const NO_TERMINATOR = '[^\\n\\r\\x{2028}\\x{2029}]';

/** The end of the text in other languages, whose patterns users bring along; RE2 has `\A` and `\z` itself. */
const END_ELSEWHERE = '\\Z';
const END = '\\z';

const MEMBERS = new Map([
  ['\\s', SPACE],
  ['\\S', NO_SPACE],
]);

/** An escape with its first character, or one character. */
const PIECE = /\\[\s\S]|[\s\S]/g;

/**
 * Spells out `\s`, `\S` and `.`, which ECMAScript defines otherwise than RE2, and takes `\Z` for an end. A hyphen beside such
 * a class, as in `[\s-x]`, remains a character, as in ECMAScript.
 */
function withEcmaScriptClasses(source: string): string {
  let inClass = false;
  const written: string[] = [];
  for (const [piece] of source.matchAll(PIECE)) {
    const members = MEMBERS.get(piece);
    const before = written.at(-1);
    if (members !== undefined) {
      if (inClass && before === '-') written[written.length - 1] = '\\-';
      written.push(inClass ? members : `[${members}]`);
    } else if (piece === END_ELSEWHERE && !inClass) {
      written.push(END);
    } else if (inClass && piece === '-' && (before === SPACE || before === NO_SPACE)) {
      written.push('\\-');
    } else {
      written.push(piece === '.' && !inClass ? NO_TERMINATOR : piece);
      if (piece === '[') inClass = true;
      if (piece === ']') inClass = false;
    }
  }
  return written.join('');
}

type Automaton = ReturnType<RE2JS['re2']>['dfa'];

interface State {
  readonly nfaStates: readonly number[];
}

/** Steps explored before a pattern counts as one of many states: a tenth of a millisecond. */
const MAX_STEPS = 5_000;
/** The engine's constants for a search that may begin anywhere, and for the flags at the begin of a text. */
const UNANCHORED = 0;
const AT_BEGIN = 5;
/** The engine's constant for the end of a text. */
const END_TEXT = -1;

/**
 * Whether all states of a pattern's automaton fit into its memory, found by making them: each character of any text
 * is then one look-up. Where they do not, as in `(a|b)*a(a|b){20}`, a hostile text makes a new state with every character,
 * in time proportional to the pattern. The result, and the `steps` it took, depend on the pattern alone.
 */
function exploreStates(automaton: Automaton): { readonly areFew: boolean; readonly steps: number } {
  let steps = 0;
  const many = () => ({ areFew: false, steps });
  if (automaton.failed) return many();
  const start = automaton.makeState([automaton.prog.start], AT_BEGIN, []) as State | null;
  if (start === null) return many();
  const found = new Set([start]);
  for (const state of found) {
    for (let characterClass = 0; characterClass <= automaton.numClasses; characterClass++) {
      steps += 1 + state.nfaStates.length;
      if (steps > MAX_STEPS) return many();
      const next = automaton.step(
        state,
        characterClass,
        firstOf(automaton, characterClass),
        UNANCHORED,
      ) as State | null;
      if (next === null) return many();
      found.add(next);
    }
  }
  return { areFew: true, steps };
}

/** The first character of each class that the pattern distinguishes; the last class is the end of the text. */
function firstOf({ classBounds, numClasses }: Automaton, characterClass: number): number {
  if (characterClass === numClasses) return END_TEXT;
  return characterClass === 0 ? 0 : (classBounds[characterClass - 1] ?? 0);
}
