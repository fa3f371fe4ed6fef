import { type ASTNode, Environment, type ParseResult } from '@marcbachmann/cel-js';

/**
 * The language of filters: the Common Expression Language with the variable `event`. Numbers in events are doubles,
 * while those in filters are mostly written as integers; so arithmetic accepts both and gives a double, as
 * comparisons do in CEL.
 */
export function filterLanguage(limits: {
  readonly maxAstNodes: number;
  readonly maxDepth: number;
}): Environment {
  const language = new Environment({ limits, homogeneousAggregateLiterals: false });
  language.registerVariable('event', 'map');
  for (const [left, right] of MIXED) {
    for (const [operator, apply] of ARITHMETIC)
      language.registerOperator(`${left} ${operator} ${right}: double`, (a: unknown, b: unknown) =>
        apply(Number(a), Number(b)),
      );
    // The library also registers the other order and `!=`.
    if (right === 'double')
      language.registerOperator(`${left} == ${right}`, (a: unknown, b: unknown) => Number(a) === Number(b));
  }
  language.registerOperator('double % double: double', (a: unknown, b: unknown) =>
    remainder(Number(a), Number(b)),
  );
  return language;
}

const MIXED = [
  ['int', 'double'],
  ['double', 'int'],
  ['uint', 'double'],
  ['double', 'uint'],
] as const;

const ARITHMETIC: readonly (readonly [string, (a: number, b: number) => number])[] = [
  ['+', (a, b) => a + b],
  ['-', (a, b) => a - b],
  ['*', (a, b) => a * b],
  ['/', (a, b) => a / b],
  ['%', remainder],
];

function remainder(a: number, b: number): number {
  if (b === 0) throw new Error('modulo by zero');
  return a % b;
}

/**
 * Parses a filter, or throws the parser's errors. Reserved words of CEL are allowed as field names
 * (`event.properties.in`), and integers beyond a double are rounded, as in events.
 */
export function parseFilter(language: Environment, filter: string): ParseResult {
  const stand = standIn(filter);
  const parsed = language.parse(
    filter.replace(WORDS, (text, word?: string) => (word ? `.${stand}${word}` : text)),
  );
  if (parsed.ast !== undefined) restore(parsed.ast, stand);
  return parsed;
}

/** Matches strings and comments, which stay unchanged, and fields named by a keyword. */
const WORDS =
  /\b(?:[rR][bB]?|[bB][rR])(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"[^"\n]*"|'[^'\n]*')|"""(?:\\[\s\S]|[\s\S])*?"""|'''(?:\\[\s\S]|[\s\S])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\/\/[^\n]*|(?<=[\w\])]\s*)\.\s*(in|true|false|null)\b(?!\s*\()/g;

/** A prefix that does not occur in the filter. */
function standIn(filter: string): string {
  let name = 'field_';
  while (filter.includes(name)) name += '_';
  return name;
}

function restore(node: ASTNode, stand: string): void {
  if ((node.op === '.' || node.op === '.?') && node.args[1].startsWith(stand))
    (node.args as [ASTNode, string])[1] = node.args[1].slice(stand.length);
  if (node.op === 'value' && typeof node.args === 'bigint')
    (node as { args: unknown }).args = BigInt(Number(node.args));
  for (const part of partsOf(node)) restore(part, stand);
}

/** The sub-expressions of an expression. */
export function partsOf(node: ASTNode): readonly ASTNode[] {
  switch (node.op) {
    case 'value':
    case 'id':
      return [];
    case '.':
    case '.?':
      return [node.args[0]];
    case '!_':
    case '-_':
      return [node.args];
    case 'call':
      return node.args[1];
    case 'rcall':
      return [node.args[1], ...node.args[2]];
    case 'map':
      return node.args.flat();
    default:
      return node.args;
  }
}
