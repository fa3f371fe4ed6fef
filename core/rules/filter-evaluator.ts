import type { ASTNode, Environment } from '@marcbachmann/cel-js';
import type { CanonicalEvent } from '../event/event.ts';
import { filterLanguage, parseFilter, partsOf } from './filter-language.ts';

/**
 * Bound on the work of all filters of one workspace for one event, in units of about 50 ns: 5 ms. Counted, not timed,
 * so that traces and replays get the same result as route.
 */
export const MAX_FILTER_WORK = 100_000;

/** Fixed cost of running a filter. */
const WORK_PER_FILTER = 40;
/** A function call, most of which parse a text. */
const WORK_PER_CALL = 20;
/** Creating an error with its message, which quotes the filter. */
const WORK_PER_ERROR = 160;
const FILTER_CHARACTERS_PER_UNIT = 4;
/** A value inside a compared object or list. */
const WORK_PER_PART = 2;
/** A text up to this length has no extra cost. */
const SHORT_TEXT = 32;
/** A failing filter makes a dead delivery with the whole event, and 50 rules may fail for one event. */
const WORK_PER_FAILURE = 2_000;
/** The evaluator creates a type for each level. */
const MAX_DEPTH = 32;

/** The remaining work for the filters of one event. Once exhausted, it stays exhausted. */
export class FilterBudget {
  left: number;
  /** Characters of filters that were compiled. This depends on the process, so it is not part of the budget. */
  compiledCharacters = 0;

  constructor(work = MAX_FILTER_WORK) {
    this.left = work;
  }

  get isSpent(): boolean {
    return this.left < 0;
  }
}

/** A compiled filter. */
export type RunnableFilter = (context: { readonly event: CanonicalEvent }) => unknown;

/** A node with our annotation `cost`, for operands. A property is twice as fast as a `WeakMap`. */
type Node = ASTNode & {
  cost?: Cost;
  evaluate(evaluator: Evaluator, node: Node, context: unknown): unknown;
};

/** The methods of the library's evaluator that every step of an evaluation passes through. */
interface Evaluator {
  run(node: Node, context: unknown): unknown;
  tryEval(node: Node, context: unknown): unknown;
}

/** Ends an evaluation that exceeds its budget. Created once, because a hostile filter causes it for every event. */
const EXHAUSTED = new Error('the work of filters is exhausted');

/**
 * The share of an operand that an operator reads. `bounded`: of a text, as much as the length of the literal beside
 * it. `linear`: all, also of an object. `argument`, of a function or method: all of a text. `quadratic`: a text, once
 * for each part of it.
 */
type Cost = 'bounded' | 'linear' | 'argument' | 'quadratic';

let current = new FilterBudget(0);
let errorWork = WORK_PER_ERROR;

const running = filterLanguage({ maxAstNodes: 1_000, maxDepth: 100 });
meter(evaluatorOf(running));

/** Compiles a filter; throws the parser's errors. */
export function runnable(filter: string): RunnableFilter {
  const parsed = parseFilter(running, filter);
  markOperands(parsed.ast);
  return parsed;
}

/**
 * Runs a filter and charges its work to the budget; undefined when the budget is exhausted. Throws the filter's
 * errors.
 */
export function runMetered(
  filter: RunnableFilter,
  length: number,
  event: CanonicalEvent,
  budget: FilterBudget,
): unknown {
  current = budget;
  errorWork = WORK_PER_ERROR + length / FILTER_CHARACTERS_PER_UNIT;
  try {
    spend(WORK_PER_FILTER);
    return filter({ event });
  } catch (error) {
    if (error === EXHAUSTED || budget.isSpent) return undefined;
    budget.left -= errorWork + WORK_PER_FAILURE;
    throw error;
  }
}

function spend(work: number): void {
  current.left -= work;
  if (current.left < 0) throw EXHAUSTED;
}

/** The library passes its evaluator to functions as `this`; there is no other access to it. */
function evaluatorOf(environment: Environment): Evaluator {
  let found: Partial<Evaluator> | undefined;
  environment.registerFunction('evaluator(): bool', function (this: Partial<Evaluator>) {
    found = this;
    return true;
  });
  environment.parse('evaluator()')({ event: {} });
  if (typeof found?.run !== 'function' || typeof found.tryEval !== 'function')
    throw new Error('this version of cel-js has no evaluator whose work can be counted');
  return found as Evaluator;
}

/**
 * Counts work. Every node is evaluated by `run`, and every error that a filter survives passes through `tryEval`: the
 * left side of `||` and `&&`, and each round of a loop.
 */
function meter(evaluator: Evaluator): void {
  evaluator.run = (node, context) => {
    if (--current.left < 0) throw EXHAUSTED;
    const value = node.evaluate(evaluator, node, context);
    if (node.cost !== undefined) spendForOperand(node.cost, value);
    return value;
  };
  evaluator.tryEval = (node, context) => {
    try {
      return evaluator.run(node, context);
    } catch (error) {
      if (error === EXHAUSTED) throw error;
      spend(errorWork);
      return error;
    }
  };
}

function spendForOperand(cost: Cost, value: unknown): void {
  if (cost === 'argument' || cost === 'quadratic') spend(WORK_PER_CALL);
  if (typeof value === 'object') {
    if (cost === 'linear') spendForParts(value, 0);
    else checkDepth(value);
  } else if (typeof value === 'string' && value.length > SHORT_TEXT && cost !== 'bounded')
    spend(cost === 'quadratic' ? value.length * value.length : value.length);
}

/** The evaluator inspects the first element, recursively, to find the type of a value. */
function checkDepth(value: object | null): void {
  let part: unknown = value;
  for (let depth = 0; typeof part === 'object' && part !== null; depth++) {
    if (depth === MAX_DEPTH) throw tooDeep();
    part = firstPart(part);
  }
}

function firstPart(value: object): unknown {
  if (Array.isArray(value)) return value[0];
  for (const name in value) return (value as Record<string, unknown>)[name];
  return undefined;
}

function tooDeep(): Error {
  return new Error(`looks at a value that is nested more than ${MAX_DEPTH} deep`);
}

function spendForParts(value: unknown, depth: number): void {
  spend(typeof value === 'string' ? WORK_PER_PART + (value.length >> 6) : WORK_PER_PART);
  if (typeof value !== 'object' || value === null) return;
  if (depth === MAX_DEPTH) throw tooDeep();
  for (const part of Object.values(value)) spendForParts(part, depth + 1);
}

/** Marks the operands of operators and functions with their cost. */
function markOperands(node: ASTNode): void {
  const mark = (operand: ASTNode, cost: Cost) => {
    (operand as Node).cost = cost;
  };
  for (const part of partsOf(node)) markOperands(part);
  switch (node.op) {
    case 'call': {
      const [name, args] = node.args;
      for (const arg of args) mark(arg, name === 'duration' ? 'quadratic' : 'argument');
      return;
    }
    case 'rcall': {
      const [name, target] = node.args;
      mark(target, name === 'startsWith' || name === 'endsWith' ? 'bounded' : 'argument');
      return;
    }
    case '!=':
    case '==':
    case 'in':
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
    case '<':
    case '<=':
    case '>':
    case '>=': {
      const [left, right] = node.args;
      mark(left, right.op === 'value' ? 'bounded' : 'linear');
      mark(right, left.op === 'value' && node.op !== 'in' ? 'bounded' : 'linear');
      return;
    }
  }
}
