import { type ASTNode, Environment, type ParseResult } from '@marcbachmann/cel-js';

/**
 * The language of filters: the Common Expression Language with `event` as its variable. Numbers of events are doubles,
 * and numbers of a filter are mostly written as integers, so arithmetic takes both together and gives a double, as
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
    // The library registers the other order and `!=` with it.
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
 * Parses a filter, or throws what the parser throws. Words that CEL keeps for itself are taken as names of fields
 * (`event.properties.in`), and integers that a double does not hold are rounded as those of events are.
 */
export function parseFilter(language: Environment, filter: string): ParseResult {
  const stand = standIn(filter);
  const parsed = language.parse(
    filter.replace(WORDS, (text, word?: string) => (word ? `.${stand}${word}` : text)),
  );
  if (parsed.ast !== undefined) restore(parsed.ast, stand);
  return parsed;
}

/** Strings and comments, which stay as they are, and fields that are named by a keyword of the lexer. */
const WORDS =
  /\b(?:[rR][bB]?|[bB][rR])(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"[^"\n]*"|'[^'\n]*')|"""(?:\\[\s\S]|[\s\S])*?"""|'''(?:\\[\s\S]|[\s\S])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\/\/[^\n]*|(?<=[\w\])]\s*)\.\s*(in|true|false|null)\b(?!\s*\()/g;

/** The start of a name that the filter does not contain. */
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

/** The parts of an expression. */
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
