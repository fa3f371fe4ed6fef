import { type ASTNode, Environment, type ParseResult } from '@marcbachmann/cel-js';

/** Bounds of a filter, checked by the parser. */
const LIMITS = { maxAstNodes: 200, maxDepth: 32 };

const MIXED = [
  ['int', 'double'],
  ['double', 'int'],
  ['uint', 'double'],
  ['double', 'uint'],
] as const;

/** Conversions of CEL that the library does not have. */
const CONVERSIONS = [
  'int(uint): int',
  'int(google.protobuf.Timestamp): int',
  'string(google.protobuf.Timestamp): string',
  'string(google.protobuf.Duration): string',
  'timestamp(google.protobuf.Timestamp): google.protobuf.Timestamp',
  'duration(google.protobuf.Duration): google.protobuf.Duration',
];

/**
 * The language of filters: the Common Expression Language with the variable `event`. The library parses and checks an
 * expression, and `filter-evaluator.ts` evaluates it; so of operators and functions only the types count here. Numbers in
 * events are doubles, while those in filters are mostly written as integers: arithmetic accepts both and gives a double,
 * as comparisons do in CEL.
 */
export const filterLanguage: Environment = languageOfFilters();

function languageOfFilters(): Environment {
  const language = new Environment({ limits: LIMITS, homogeneousAggregateLiterals: false });
  language.registerVariable('event', 'map');
  for (const [left, right] of MIXED) {
    for (const operator of ['+', '-', '*', '/', '%'])
      language.registerOperator(`${left} ${operator} ${right}: double`, notEvaluated);
    // The library also registers the other order and `!=`.
    if (right === 'double') language.registerOperator(`${left} == ${right}`, notEvaluated);
  }
  language.registerOperator('double % double: double', notEvaluated);
  for (const operator of ['<', '<=', '>', '>='])
    language.registerOperator(`bytes ${operator} bytes: bool`, notEvaluated);
  for (const signature of CONVERSIONS) language.registerFunction(signature, notEvaluated);
  return language;
}

function notEvaluated(): never {
  throw new Error('the library only checks filters');
}

/** Parses a filter, or throws the parser's errors. Keywords are allowed as field names (`event.properties.in`). */
export function parseFilter(filter: string): ParseResult {
  const stand = standIn(filter);
  const parsed = filterLanguage.parse(
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
  if (node.op === '.' && node.args[1].startsWith(stand))
    (node.args as [ASTNode, string])[1] = node.args[1].slice(stand.length);
  if (node.op === '+' && isDuration(node.args[0])) (node.args as ASTNode[]).reverse();
  for (const part of partsOf(node)) restore(part, stand);
}

/** Of a duration and a time the library takes the sum for a duration, but not of a time and a duration. */
function isDuration({ op, args }: ASTNode): boolean {
  if (op === 'call') return args[0] === 'duration';
  return (op === '+' || op === '-') && args.every(isDuration);
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
