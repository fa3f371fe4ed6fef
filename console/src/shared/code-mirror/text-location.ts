import { jsonLanguage } from '@codemirror/lang-json';
import type { Text } from '@codemirror/state';

type Node = ReturnType<typeof jsonLanguage.parser.parse>['topNode'];

/** A location in a text: line and column, both from 1, or a JSON pointer into it. */
export type TextLocation =
  | { readonly line: number; readonly column?: number | undefined }
  | { readonly pointer: string };

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** The range of a location in the text. A location that does not exist has the range of the nearest one that does. */
export function rangeOf(text: Text, location: TextLocation): Range {
  return 'pointer' in location
    ? rangeOfPointer(text.toString(), location.pointer)
    : rangeOfLine(text, location);
}

/** From the column to the end of its word, or the whole line where no column is known. */
function rangeOfLine(text: Text, { line, column }: { line: number; column?: number | undefined }): Range {
  const found = text.line(Math.min(Math.max(1, line), text.lines));
  if (column === undefined) return { from: found.from, to: found.to };
  const from = Math.min(found.from + Math.max(0, column - 1), found.to);
  const word = /^[\w$]+/.exec(found.text.slice(from - found.from))?.[0].length ?? 1;
  return { from, to: Math.min(from + word, found.to) };
}

/** The name of the member at the pointer, or the item of an array; if it is missing, its nearest parent. */
function rangeOfPointer(text: string, pointer: string): Range {
  let value = jsonLanguage.parser.parse(text).topNode.firstChild;
  let range: Range = { from: 0, to: value?.name === 'Object' ? Math.min(1, text.length) : text.length };
  for (const step of stepsOf(pointer)) {
    const next = value === null ? undefined : childOf(value, step, text);
    if (next === undefined) return range;
    range = next.range;
    value = next.value;
  }
  return range;
}

function childOf(
  value: Node,
  step: string,
  text: string,
): { readonly range: Range; readonly value: Node | null } | undefined {
  if (value.name === 'Array') {
    const item = childrenOf(value).filter(({ name }) => !/^[[\],]$/.test(name))[Number(step)];
    return item && { range: { from: item.from, to: item.to }, value: item };
  }
  if (value.name !== 'Object') return undefined;
  for (const property of value.getChildren('Property')) {
    const name = property.getChild('PropertyName');
    if (name === null || unquoted(text.slice(name.from, name.to)) !== step) continue;
    const held = property.lastChild;
    return { range: { from: name.from, to: name.to }, value: held === name ? null : held };
  }
  return undefined;
}

function childrenOf(node: Node): readonly Node[] {
  const children: Node[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) children.push(child);
  return children;
}

function stepsOf(pointer: string): readonly string[] {
  if (!pointer.startsWith('/')) return [];
  const steps = pointer.slice(1).split('/');
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function unquoted(text: string): string | undefined {
  try {
    return String(JSON.parse(text));
  } catch {
    return undefined;
  }
}
