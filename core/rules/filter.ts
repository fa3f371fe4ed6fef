import type { ASTNode, ParseResult } from '@marcbachmann/cel-js';
import { type CanonicalEvent, EVENT_FIELDS, fieldFor } from '../event/event.ts';
import { SharedCache } from '../limits/shared-cache.ts';
import { messageOf } from '../primitives/errors.ts';
import {
  FilterBudget,
  isAvailable,
  QUANTIFIERS,
  type RunnableFilter,
  runMetered,
  runnable,
} from './filter-evaluator.ts';
import { parseFilter, partsOf } from './filter-language.ts';

/** Bound on the characters of a filter. */
export const MAX_FILTER_LENGTH = 1_000;

const MAX_LOOPS = 4;
/** Bound on the characters of cached compiled filters, which take about 100 bytes each. */
const KEPT_CHARACTERS = 1024 * 1024;
/** Fixed weight of a compiled filter, in characters. */
const LEAST_WEIGHT = 50;
/** Bound on the characters of a shown error. */
const MESSAGE_LENGTH = 300;

/**
 * The result of a filter for an event. A filter that failed neither matched nor did not match; one that exceeds the
 * remaining budget is not evaluated. `failed` is a message for users.
 */
export type FilterResult = 'matched' | 'not matched' | 'not evaluated' | { readonly failed: string };

type Compiled = { readonly run: RunnableFilter } | { readonly fault: string };

/** By organization: to compile 200 filters of 300 characters anew takes 100 ms an event, to evaluate them 1 ms. */
const compiled = new SharedCache<Compiled>(KEPT_CHARACTERS);

/**
 * Evaluates a rule's filter, an expression of the Common Expression Language (CEL) over `event`, the canonical event.
 * Charges its work to `budget` and never throws.
 */
export function evaluateFilter(
  filter: string,
  event: CanonicalEvent,
  budget = new FilterBudget(),
): FilterResult {
  if (budget.isSpent) return 'not evaluated';
  const known = compiledOf(filter, budget);
  if ('fault' in known) return { failed: known.fault };
  const { stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 0; // stacks are the most expensive part of a failing loop round, and unused
    const answer = runMetered(known.run, event, budget);
    if (typeof answer === 'boolean') return answer ? 'matched' : 'not matched';
    return budget.isSpent ? 'not evaluated' : { failed: 'it gives neither true nor false' };
  } catch (error) {
    return { failed: firstLine(error) };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/**
 * Why a text is not a valid filter for a new rule, for users; undefined when it is. A name that no event has is a fault
 * here only: a stored filter may have one where it does no harm.
 */
export function filterFault(filter: string): string | undefined {
  const made = compile(filter);
  if ('fault' in made) return made.fault;
  return unknownName(parseFilter(filter).ast);
}

function compiledOf(filter: string, budget: FilterBudget): Compiled {
  const known = compiled.get(budget.owner, filter);
  if (known !== undefined) return known;
  budget.compiledCharacters += filter.length;
  const made = compile(filter);
  compiled.add(budget.owner, filter, made, LEAST_WEIGHT + filter.length);
  return made;
}

/** Checks the bounds of a stored filter too: it may be older than a bound. */
function compile(filter: string): Compiled {
  if (filter.length > MAX_FILTER_LENGTH) return { fault: `has more than ${MAX_FILTER_LENGTH} characters` };
  try {
    const parsed = parseFilter(filter);
    const fault = faultOf(parsed);
    return fault === undefined ? { run: runnable(parsed.ast) } : { fault };
  } catch (error) {
    return { fault: firstLine(error) };
  }
}

function faultOf(parsed: ParseResult): string | undefined {
  const { valid, type, error } = parsed.check();
  if (!valid) return withSuggestion(firstLine(error));
  if (type !== 'bool' && type !== 'dyn') return `gives ${type}, not true or false`;
  if (givesNumber(parsed.ast)) return 'gives a number, not true or false';
  if (loopsIn(parsed.ast) > MAX_LOOPS) return `has more than ${MAX_LOOPS} loops`;
  return faultIn(parsed.ast, OUTSIDE);
}

/** The fault of a name that no event has: the first of the filter. */
function unknownName(node: ASTNode): string | undefined {
  const name = nameOfEvent(node);
  if (name !== undefined && !EVENT_FIELDS.includes(name))
    return `event has no ${name}: ${suggestionFor(name)}`;
  for (const part of partsOf(node)) {
    const fault = unknownName(part);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** The name of `event.name` and `event["name"]`. */
function nameOfEvent(node: ASTNode): string | undefined {
  if (node.op !== '.' && node.op !== '[]') return undefined;
  const [object, key] = node.args;
  if (object.op !== 'id' || object.args !== 'event') return undefined;
  const name = typeof key === 'string' ? key : key.args;
  return typeof name === 'string' && (node.op === '.' || (key as ASTNode).op === 'value') ? name : undefined;
}

function withSuggestion(fault: string): string {
  const [, name] = /^Unknown variable: (\w+)$/.exec(fault) ?? [];
  return name === undefined ? fault : `${fault}; ${suggestionFor(name)}`;
}

function suggestionFor(name: string): string {
  const field = fieldFor(name);
  if (EVENT_FIELDS.includes(field)) return `did you mean event.${field}?`;
  return `did you mean event.properties.${name} or event.traits.${name}?`;
}

function firstLine(error: unknown): string {
  return (messageOf(error).split('\n', 1)[0] ?? '').slice(0, MESSAGE_LENGTH);
}

/** Whether an expression is evaluated once, or once for each item of a list. */
interface Scope {
  readonly perItem: boolean;
}
const OUTSIDE: Scope = { perItem: false };
const PER_ITEM: Scope = { perItem: true };

/** Functions that return a number, a time or a duration. */
const SMALL = new Set(['size', 'int', 'uint', 'double', 'timestamp', 'duration']);
/** Text searches: linear only when the searched text is a literal of the filter. */
const SEARCHES = new Set(['startsWith', 'endsWith', 'contains']);

const A_NUMBER = 'has a number where it must say true or false';

/**
 * Finds what would make a filter cost more than one pass over the event for each of its parts: nested loops, a loop
 * with a body that reads the whole event, a search for a text of the event, patterns, and functions that build larger
 * texts or lists out of small ones.
 */
function faultIn(node: ASTNode, scope: Scope): string | undefined {
  switch (node.op) {
    case 'value':
      return undefined;
    case 'id':
      return scope.perItem && node.args === 'event' ? 'looks at event in each round of a loop' : undefined;
    case 'call': {
      const [name, args] = node.args;
      return isAvailable(node) ? firstFault(args, scope) : notAvailable(name);
    }
    case 'rcall':
      return isAvailable(node) ? faultOfMethod(...node.args, scope) : notAvailable(node.args[0]);
    case '.':
    case '.?':
      return faultIn(node.args[0], scope);
    case '!_':
      return givesNumber(node.args) ? A_NUMBER : faultIn(node.args, scope);
    case '-_':
      return faultIn(node.args, scope);
    case '&&':
    case '||':
      return node.args.some(givesNumber) ? A_NUMBER : firstFault(node.args, scope);
    case '?:':
      return givesNumber(node.args[0]) ? A_NUMBER : firstFault(node.args, scope);
    case 'map':
      return firstFault(node.args.flat(), scope);
    case '+':
      return node.args.some(isSmall)
        ? firstFault(node.args, scope)
        : '+ adds numbers: one side must be one that the filter spells out or works out';
    default:
      return isAvailable(node) ? firstFault(node.args, scope) : notAvailable(node.op);
  }
}

function notAvailable(operation: string): string {
  return `${operation} is not available in a filter`;
}

function faultOfMethod(
  name: string,
  target: ASTNode,
  args: readonly ASTNode[],
  scope: Scope,
): string | undefined {
  const inTarget = faultIn(target, scope);
  if (inTarget !== undefined) return inTarget;
  if (SEARCHES.has(name))
    return args.every(({ op }) => op === 'value')
      ? undefined
      : `${name} looks for a text that the filter must spell out`;
  if (!QUANTIFIERS.has(name)) return firstFault(args, scope);
  const [, body] = args;
  if (args.length !== 2 || body === undefined) return `${name} takes a name and a condition`;
  if (buildsOfEvent(target)) return 'loops over a list that it makes of the event';
  return scope.perItem ? 'has a loop in a loop' : faultIn(body, PER_ITEM);
}

/** Whether an operand can only be a number, a time or a duration, so that `+` does not concatenate texts or lists. */
function isSmall({ op, args }: ASTNode): boolean {
  switch (op) {
    case 'value':
      return typeof args === 'number' || typeof args === 'bigint' || isUnsigned(args);
    case '-_':
    case '-':
    case '*':
    case '/':
    case '%':
      return true;
    case '+':
      return args.some(isSmall);
    case 'call':
      return SMALL.has(args[0]);
    case 'rcall':
      return args[0] === 'size';
    default:
      return false;
  }
}

/** The parser has unsigned integers as objects, and bytes as `Uint8Array`. */
function isUnsigned(literal: unknown): boolean {
  return typeof literal === 'object' && literal !== null && !(literal instanceof Uint8Array);
}

/** Whether an expression can only give a number, a time or a duration, whatever the event. */
function givesNumber(node: ASTNode): boolean {
  if (node.op === '?:') return givesNumber(node.args[1]) || givesNumber(node.args[2]);
  return node.op !== '+' ? isSmall(node) : node.args.some(givesNumber);
}

/**
 * Whether a literal list or map contains the event: a loop over it would read the event for each item and part of its
 * body.
 */
function buildsOfEvent(node: ASTNode, inLiteral = false): boolean {
  if (node.op === 'id') return inLiteral && node.args === 'event';
  const inside = inLiteral || node.op === 'list' || node.op === 'map';
  return partsOf(node).some((part) => buildsOfEvent(part, inside));
}

function loopsIn(node: ASTNode): number {
  const own = node.op === 'rcall' && QUANTIFIERS.has(node.args[0]) ? 1 : 0;
  return partsOf(node).reduce((sum, part) => sum + loopsIn(part), own);
}

function firstFault(nodes: readonly ASTNode[], scope: Scope): string | undefined {
  for (const node of nodes) {
    const fault = faultIn(node, scope);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
