import { readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** A row of a table of a document, and the content of its last cell. */
export interface Row {
  readonly line: string;
  readonly reference: string;
}

/** Every row of every table, without headings. A row of dashes elsewhere counts as one: it is a row whose text was lost. */
export function rowsOf(text: string): readonly Row[] {
  const lines = text.split('\n');
  const isHeadingRule = (at: number) => isRule(lines[at]) && isRow(lines[at - 1]) && !isRow(lines[at - 2]);
  return lines
    .filter((line, at) => isRow(line) && !isHeadingRule(at) && !isHeadingRule(at + 1))
    .map((line) => ({ line, reference: line.split('|').at(-2)?.trim() ?? '' }));
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

const isRow = (line: string | undefined) => line?.startsWith('|') === true;
const isRule = (line: string | undefined) => /^\|[ :|-]+\|$/.test(line ?? '');

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
