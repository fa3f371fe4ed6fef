import { type ASTNode, Environment, type ParseResult } from '@marcbachmann/cel-js';
import { LRUCache } from 'lru-cache';
import { messageOf } from '../errors/errors.ts';
import type { CanonicalEvent } from '../event/event.ts';

/** Characters of a filter at most; with the rules of `faultIn` the bound of what one event may cost. */
export const MAX_FILTER_LENGTH = 1_000;

const MAX_NODES = 200;
const MAX_DEPTH = 32;
/** Compiled filters kept at most. */
const KEPT = 2_000;
/** Characters of a failure that are shown. */
const MESSAGE_LENGTH = 300;

/** What a filter says of an event. A filter that fails says neither yes nor no; `message` is for people. */
export type FilterVerdict = 'matched' | 'not matched' | { readonly failed: string };

const language = new Environment({
  limits: { maxAstNodes: MAX_NODES, maxDepth: MAX_DEPTH },
}).registerVariable('event', 'map');

const compiled = new LRUCache<string, ParseResult>({ max: KEPT });

/**
 * Whether an event passes a rule's filter: an expression of the Common Expression Language (CEL) over `event`, the
 * canonical event. Takes time linear in the size of the event, and never throws.
 */
export function filterVerdict(filter: string, event: CanonicalEvent): FilterVerdict {
  try {
    const answer: unknown = compiledOf(filter)({ event });
    if (typeof answer === 'boolean') return answer ? 'matched' : 'not matched';
    return { failed: 'it gives neither true nor false' };
  } catch (error) {
    return { failed: firstLine(error) };
  }
}

/** Why a text cannot be a filter, for people; undefined when it can. */
export function faultOfFilter(filter: string): string | undefined {
  if (filter.length > MAX_FILTER_LENGTH) return `has more than ${MAX_FILTER_LENGTH} characters`;
  try {
    const parsed = language.parse(filter);
    const { valid, type, error } = parsed.check();
    if (!valid) return firstLine(error);
    if (type !== 'bool' && type !== 'dyn') return `gives ${type}, not true or false`;
    return faultIn(parsed.ast, OUTSIDE);
  } catch (error) {
    return firstLine(error);
  }
}

function compiledOf(filter: string): ParseResult {
  const known = compiled.get(filter);
  if (known !== undefined) return known;
  const made = language.parse(filter);
  compiled.set(filter, made);
  return made;
}

function firstLine(error: unknown): string {
  return (messageOf(error).split('\n', 1)[0] ?? '').slice(0, MESSAGE_LENGTH);
}

/** Whether a part of an expression is run once, or once for each item of a list. */
interface Place {
  readonly perItem: boolean;
}
const OUTSIDE: Place = { perItem: false };
const PER_ITEM: Place = { perItem: true };

/** Each takes time linear in what it is given. */
const FUNCTIONS = new Set([
  'has',
  'size',
  'int',
  'double',
  'string',
  'bool',
  'timestamp',
  'duration',
  'type',
]);
const METHODS = new Set(['size', 'lowerAscii', 'upperAscii', 'trim']);
/** These look for one text in another: linear as long as the one they look for is written in the filter. */
const SEARCHES = new Set(['startsWith', 'endsWith', 'contains']);
/** These run their second argument once for each item. */
const QUANTIFIERS = new Set(['exists', 'exists_one', 'all']);

/**
 * What would make a filter cost more than one pass over the event for each of its parts: a loop in a loop, a loop whose
 * body looks at the whole event again, a search for what the event itself says, patterns, and functions that build
 * larger texts or lists out of small ones.
 */
function faultIn(node: ASTNode, place: Place): string | undefined {
  switch (node.op) {
    case 'value':
      return undefined;
    case 'id':
      return place.perItem && node.args === 'event' ? 'looks at event in each round of a loop' : undefined;
    case 'call': {
      const [name, args] = node.args;
      return FUNCTIONS.has(name) ? firstFault(args, place) : `${name} is not to be had in a filter`;
    }
    case 'rcall':
      return faultOfMethod(...node.args, place);
    case '.':
    case '.?':
      return faultIn(node.args[0], place);
    case '!_':
    case '-_':
      return faultIn(node.args, place);
    case 'map':
      return firstFault(node.args.flat(), place);
    default:
      return firstFault(node.args, place);
  }
}

function faultOfMethod(
  name: string,
  target: ASTNode,
  args: readonly ASTNode[],
  place: Place,
): string | undefined {
  const inTarget = faultIn(target, place);
  if (inTarget !== undefined) return inTarget;
  if (METHODS.has(name)) return firstFault(args, place);
  if (SEARCHES.has(name))
    return args.every(({ op }) => op === 'value')
      ? undefined
      : `${name} looks for a text that the filter must spell out`;
  if (!QUANTIFIERS.has(name)) return `${name} is not to be had in a filter`;
  const [, body] = args;
  if (args.length !== 2 || body === undefined) return `${name} takes a name and a condition`;
  return place.perItem ? 'has a loop in a loop' : faultIn(body, PER_ITEM);
}

function firstFault(nodes: readonly ASTNode[], place: Place): string | undefined {
  for (const node of nodes) {
    const fault = faultIn(node, place);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
