import { readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** An item of a list of a document, and what it ends with: the test that shows it. */
export interface Row {
  readonly line: string;
  readonly reference: string;
}

/** Every item of every list. Each is one line. */
export function rowsOf(text: string): readonly Row[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('- '))
    .map((line) => ({ line, reference: /: (`[^`]+`(?: ".+")?)$/.exec(line)?.[1] ?? '' }));
}

/** The rows without an existing test. */
export function faultsOf(rows: readonly Row[]): readonly string[] {
  return rows.filter(({ reference }) => !isTest(reference)).map(({ line }) => line);
}

/** The rows below a heading of the second level. */
export function rowsBelow(heading: string, text: string): readonly Row[] {
  const [, rest = ''] = text.split(`\n## ${heading}\n`);
  const [part = ''] = rest.split('\n## ');
  return rowsOf(part);
}

export function documentAt(path: string): string {
  return readFileSync(new URL(path, root), 'utf8');
}

const REFERENCE = /^`([\w./-]+\.ts)` "(.+)"$/;
/** A spec, or a part of a conformance suite that specs run. */
const TESTS = /\.spec\.ts$|^test\/conformance\//;

/** Whether the file has a test, a group of tests or a row of one by that title. */
function isTest(reference: string): boolean {
  const [, file = '', title = ''] = REFERENCE.exec(reference) ?? [];
  if (!TESTS.test(file)) return false;
  try {
    return isTitle(title, documentAt(file));
  } catch {
    return false;
  }
}

/** The beginning of a title, of three words at least. */
const BEGINNING = /^(?<words>\S+(?: \S+){2,})…$/;

/** Whether the title, or one that begins so, is the first argument of a call or the first cell of a row. */
function isTitle(title: string, source: string): boolean {
  const { words } = BEGINNING.exec(title)?.groups ?? {};
  const text = (words ?? title).replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
  const rest = words === undefined ? '' : String.raw`(?:(?!\1)[^\\\n]|\\.)*`;
  return new RegExp(`[([]\\s*(['"\`])${text}${rest}\\1\\s*,`).test(source);
}
