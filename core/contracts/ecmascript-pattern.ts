/** What `\s` stands for in ECMAScript, as members of a class. RE2 knows the five of ASCII only. */
const SPACE =
  '\\t\\n\\x0b\\f\\r \\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}';
/** All the others. */
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
/** `.` leaves out every line terminator of ECMAScript, in RE2 the line feed alone. */
const NO_TERMINATOR = '[^\\n\\r\\x{2028}\\x{2029}]';

const MEMBERS = new Map([
  ['\\s', SPACE],
  ['\\S', NO_SPACE],
]);

/** One escape with its first character, or one character. */
const PIECE = /\\[\s\S]|[\s\S]/g;

/**
 * Spells out what an ECMAScript pattern means otherwise than RE2 reads it: `\s`, `\S` and `.`. What stands beside a
 * hyphen, as in `[\s-x]`, keeps the hyphen a character, as ECMAScript has it.
 */
export function withEcmaScriptClasses(source: string): string {
  let inClass = false;
  const written: string[] = [];
  for (const [piece] of source.matchAll(PIECE)) {
    const members = MEMBERS.get(piece);
    const before = written.at(-1);
    if (members !== undefined) {
      if (inClass && before === '-') written[written.length - 1] = '\\-';
      written.push(inClass ? members : `[${members}]`);
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
