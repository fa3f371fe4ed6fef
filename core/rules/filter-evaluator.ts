import type { ASTNode } from '@marcbachmann/cel-js';
import type { CanonicalEvent } from '../event/event.ts';
import {
  Bytes,
  compareValues,
  Duration,
  equalNumbers,
  isInteger,
  type KeyedMap,
  keyedMap,
  keyOf,
  kindOf,
  Timestamp,
  TYPES,
  typeOf,
  Uint,
} from './filter-values.ts';

/**
 * Bound on the work of all filters of one workspace for one event, in units of about 50 ns: 5 ms. Counted, not timed,
 * so that traces and replays get the same result as route.
 */
export const MAX_FILTER_WORK = 100_000;
/** Processor time of a unit, ms. */
export const MS_PER_FILTER_WORK = 50e-6;

/** Fixed cost of running a filter. */
const WORK_PER_FILTER = 40;
/** A function call, most of which parse a text. */
const WORK_PER_CALL = 20;
/** An error that the filter survives. */
const WORK_PER_ERROR = 40;
/** A value inside a compared object or list. */
const WORK_PER_PART = 2;
/** A text up to this length has no extra cost. */
const SHORT_TEXT = 32;
/** Objects with more keys are hash tables: their keys are collected and sorted each time that they are listed. */
const FEW_KEYS = 32;
const WORK_PER_LISTED_KEY = 5;
/** An entry of a map that a filter spells out. */
const WORK_PER_ENTRY = 10;
/** Characters that are hashed or compared in one unit. */
const CHARACTERS_PER_UNIT = 16;
/** A failing filter makes a dead delivery with the whole event, and 50 rules may fail for one event. */
const WORK_PER_FAILURE = 2_000;
/** Nesting of values that are compared. */
const MAX_DEPTH = 32;

/** The remaining work for the filters of one event. Once exhausted, it stays exhausted. */
export class FilterBudget {
  left: number;
  /** Characters of filters that were compiled. This depends on the process, so it is not part of the budget. */
  compiledCharacters = 0;
  /** The keys of large objects: each is listed once for all filters of an event. */
  keys: Map<object, readonly string[]> | undefined;

  /** Whose share of the compiled filters is used: the organization. */
  readonly owner: string;

  constructor(owner = '', work = MAX_FILTER_WORK) {
    this.owner = owner;
    this.left = work;
  }

  get isSpent(): boolean {
    return this.left < 0;
  }
}

/** The value of `event`, or of the variable of a loop with the scope around it. */
interface Scope {
  value: unknown;
  readonly outer?: Scope;
}

/** A compiled expression. */
export type RunnableFilter = (scope: Scope) => unknown;

/** Ends an evaluation that exceeds its budget. Created once, because a hostile filter causes it for every event. */
const EXHAUSTED = new Error('the work of filters is exhausted');

let current = new FilterBudget('', 0);

/**
 * Runs a filter and charges its work to the budget; undefined when the budget is exhausted. Throws the filter's
 * errors.
 */
export function runMetered(filter: RunnableFilter, event: CanonicalEvent, budget: FilterBudget): unknown {
  current = budget;
  try {
    spend(WORK_PER_FILTER);
    return filter({ value: event });
  } catch (error) {
    if (error === EXHAUSTED || budget.isSpent) return undefined;
    budget.left -= WORK_PER_ERROR + WORK_PER_FAILURE;
    throw error;
  }
}

function spend(work: number): void {
  current.left -= work;
  if (current.left < 0) throw EXHAUSTED;
}

/** The functions of filters. Each spends the work that depends on its argument. */
export const FUNCTIONS: Readonly<Record<string, (argument: unknown) => unknown>> = {
  size: sizeOf,
  int(value) {
    if (typeof value === 'bigint') return value;
    if (value instanceof Uint) return int64(value.value);
    if (typeof value === 'number') return int64OfDouble(value);
    if (value instanceof Timestamp) return value.seconds;
    if (typeof value === 'string' && /^[+-]?[0-9]{1,20}$/.test(value)) return int64(BigInt(value));
    throw noConversion(value, 'int');
  },
  double(value) {
    if (typeof value === 'number') return value;
    if (typeof value === 'bigint') return Number(value);
    if (value instanceof Uint) return Number(value.value);
    const number = typeof value === 'string' ? doubleOf(value) : undefined;
    if (number === undefined) throw noConversion(value, 'double');
    return number;
  },
  string(value) {
    if (typeof value === 'string') return value;
    if (typeof value === 'number') return textOfDouble(value);
    if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
    if (value instanceof Uint || value instanceof Timestamp || value instanceof Duration)
      return value.toString();
    if (value instanceof Bytes) return value.toText();
    throw noConversion(value, 'string');
  },
  bool(value) {
    if (typeof value === 'boolean') return value;
    if (TRUE.has(value)) return true;
    if (FALSE.has(value)) return false;
    throw noConversion(value, 'bool');
  },
  timestamp(value) {
    if (value instanceof Timestamp) return value;
    if (typeof value === 'string') return Timestamp.parse(value);
    // Numbers of events are doubles.
    const seconds = isInteger(value) ? BigInt(value) : value;
    if (typeof seconds === 'bigint') return Timestamp.ofSeconds(seconds);
    throw noConversion(value, 'timestamp');
  },
  duration(value) {
    if (value instanceof Duration) return value;
    if (typeof value !== 'string') throw noConversion(value, 'duration');
    spend(value.length);
    return Duration.parse(value);
  },
  type: typeOf,
  dyn: (value) => value,
  uint(value) {
    if (value instanceof Uint) return value;
    if (typeof value === 'bigint') return new Uint(value);
    if (typeof value === 'number' && Number.isFinite(value)) return new Uint(BigInt(Math.trunc(value)));
    if (typeof value === 'string' && /^[0-9]{1,20}$/.test(value)) return new Uint(BigInt(value));
    throw noConversion(value, 'uint');
  },
};

const TRUE: ReadonlySet<unknown> = new Set(['1', 't', 'true', 'TRUE', 'True']);
const FALSE: ReadonlySet<unknown> = new Set(['0', 'f', 'false', 'FALSE', 'False']);

/** The methods of filters, each with the work that depends on its target. The argument of a search is a literal. */
export const METHODS: Readonly<Record<string, (target: unknown, argument?: unknown) => unknown>> = {
  size: sizeOf,
  lowerAscii: (target) => readText(target, 'lowerAscii').replace(/[A-Z]+/g, (part) => part.toLowerCase()),
  upperAscii: (target) => readText(target, 'upperAscii').replace(/[a-z]+/g, (part) => part.toUpperCase()),
  trim: (target) => readText(target, 'trim').trim(),
  contains: (target, part) => readText(target, 'contains').includes(asText(part, 'contains')),
  startsWith: (target, part) => asText(target, 'startsWith').startsWith(asText(part, 'startsWith')),
  endsWith: (target, part) => asText(target, 'endsWith').endsWith(asText(part, 'endsWith')),
};

/** Methods that evaluate their second argument once for each item of what they are called on. */
export const QUANTIFIERS: ReadonlySet<string> = new Set(['exists', 'exists_one', 'all']);

const COMPARISONS: Readonly<Record<string, (order: number) => boolean>> = {
  '<': (order) => order < 0,
  '<=': (order) => order <= 0,
  '>': (order) => order > 0,
  '>=': (order) => order >= 0,
};

const ARITHMETIC: Readonly<
  Record<string, { int(a: bigint, b: bigint): bigint; double(a: number, b: number): number }>
> = {
  '+': { int: (a, b) => a + b, double: (a, b) => a + b },
  '-': { int: (a, b) => a - b, double: (a, b) => a - b },
  '*': { int: (a, b) => a * b, double: (a, b) => a * b },
  '/': { int: (a, b) => a / divisor(b, 'division'), double: (a, b) => a / b },
  '%': { int: (a, b) => a % divisor(b, 'modulo'), double: (a, b) => a % divisor(b, 'modulo') },
};

function divisor<Divisor extends number | bigint>(value: Divisor, of: string): Divisor {
  if (Number(value) === 0) throw new Error(`${of} by zero`);
  return value;
}

/** Whether filters have the operation of a node. */
export function isAvailable(node: ASTNode): boolean {
  switch (node.op) {
    case 'call':
      return node.args[0] === 'has' || Object.hasOwn(FUNCTIONS, node.args[0]);
    case 'rcall':
      return Object.hasOwn(METHODS, node.args[0]) || QUANTIFIERS.has(node.args[0]);
    default:
      return true;
  }
}

/** Compiles a checked expression; `names` are the variables of the loops around it, outermost first. */
export function runnable(node: ASTNode, names: readonly string[] = ['event']): RunnableFilter {
  const run = operationOf(node, names);
  return (scope) => {
    if (--current.left < 0) throw EXHAUSTED;
    return run(scope);
  };
}

function operationOf(node: ASTNode, names: readonly string[]): RunnableFilter {
  switch (node.op) {
    case 'value': {
      const value = literalOf(node.args);
      return () => value;
    }
    case 'id':
      return variable(node.args, names);
    case '.': {
      const type = TYPES.get(dottedName(node));
      if (type !== undefined && !names.includes('google')) return () => type;
      const [object, name] = [runnable(node.args[0], names), node.args[1]];
      return (scope) => fieldOf(object(scope), name);
    }
    case '[]': {
      const [object, key] = [runnable(node.args[0], names), runnable(node.args[1], names)];
      return (scope) => elementOf(object(scope), key(scope));
    }
    case '!_': {
      const operand = runnable(node.args, names);
      return (scope) => !asBool(operand(scope));
    }
    case '-_':
      return negation(node.args, names);
    case '&&':
      return logical(node.args, names, false);
    case '||':
      return logical(node.args, names, true);
    case '?:': {
      const [condition, first, second] = [
        runnable(node.args[0], names),
        runnable(node.args[1], names),
        runnable(node.args[2], names),
      ];
      return (scope) => (asBool(condition(scope)) ? first(scope) : second(scope));
    }
    case 'list': {
      const items = node.args.map((part) => runnable(part, names));
      return (scope) => items.map((item) => item(scope));
    }
    case 'map': {
      const entries = node.args.map(
        ([key, value]) => [runnable(key, names), runnable(value, names)] as const,
      );
      return (scope) => mapOf(entries, scope);
    }
    case 'call':
      return node.args[0] === 'has' ? presence(node.args[1], names) : call(node.args[0], node.args[1], names);
    case 'rcall': {
      const [name, target, args] = node.args;
      return QUANTIFIERS.has(name) ? loop(name, target, args, names) : method(name, target, args, names);
    }
    default:
      return binary(node, names);
  }
}

/** The parser has integers as bigints, unsigned ones as objects of its own, and bytes as `Uint8Array`. */
function literalOf(value: unknown): unknown {
  if (typeof value === 'bigint') return int64(value);
  if (value instanceof Uint8Array) return new Bytes(value);
  if (typeof value === 'object' && value !== null) return new Uint(BigInt(String(value)));
  return value;
}

function dottedName(node: ASTNode): string {
  if (node.op === 'id') return node.args;
  return node.op === '.' ? `${dottedName(node.args[0])}.${node.args[1]}` : '';
}

function variable(name: string, names: readonly string[]): RunnableFilter {
  const levels = names.length - 1 - names.lastIndexOf(name);
  if (levels === names.length) {
    const type = TYPES.get(name);
    if (type === undefined) throw new Error(`Unknown variable: ${name}`);
    return () => type;
  }
  if (levels === 0) return ({ value }) => value;
  return (scope) => {
    let at: Scope | undefined = scope;
    for (let level = 0; level < levels; level++) at = at?.outer;
    return at?.value;
  };
}

function fieldOf(object: unknown, name: string): unknown {
  const value = kindOf(object) === 'map' ? entryOf(object as object, name) : undefined;
  if (value === undefined) throw new Error(`No such key: ${name}`);
  return value;
}

/** The value of a key. Inherited properties of an object are no entries, whatever their name. */
function entryOf(map: object, key: unknown): unknown {
  if (typeof key === 'string' && key.length > SHORT_TEXT) spend(key.length / CHARACTERS_PER_UNIT);
  if (map instanceof Map) return (map as KeyedMap).get(keyOf(key))?.value;
  return typeof key === 'string' && Object.hasOwn(map, key)
    ? (map as Record<string, unknown>)[key]
    : undefined;
}

function elementOf(object: unknown, key: unknown): unknown {
  const kind = kindOf(object);
  if (kind === 'map') {
    const value = entryOf(object as object, key);
    if (value !== undefined) return value;
  } else if (kind === 'list') {
    const index = key instanceof Uint ? key.value : key;
    if (typeof index !== 'bigint' && !isInteger(index)) throw noOverload(kind, '[]', kindOf(key));
    const value = (object as readonly unknown[])[Number(index)];
    if (value !== undefined) return value;
    throw new Error(`No such key: index out of bounds: ${index}`);
  } else throw noOverload(kind, '[]', kindOf(key));
  throw new Error(`No such key: ${typeof key === 'string' ? key : FUNCTIONS.string?.(key)}`);
}

/** Of an integer that the filter spells out the sign belongs to the literal: the least one has no positive counterpart. */
function negation(part: ASTNode, names: readonly string[]): RunnableFilter {
  if (part.op === 'value' && typeof part.args === 'bigint') {
    const value = int64(-part.args);
    return () => value;
  }
  const operand = runnable(part, names);
  return (scope) => {
    const value = operand(scope);
    if (typeof value === 'number') return -value;
    if (typeof value === 'bigint') return int64(-value);
    throw new Error(`no such overload: -${kindOf(value)}`);
  };
}

type Pair = readonly [ASTNode, ASTNode];

/** `decisive` decides whatever the other side is, also where that fails. */
function logical(parts: Pair, names: readonly string[], decisive: boolean): RunnableFilter {
  const [left, right] = [runnable(parts[0], names), runnable(parts[1], names)];
  return (scope) => {
    let failure: unknown;
    try {
      if (asBool(left(scope)) === decisive) return decisive;
    } catch (error) {
      failure = survived(error);
    }
    if (asBool(right(scope)) === decisive) return decisive;
    if (failure !== undefined) throw failure;
    return !decisive;
  };
}

/** An error that the filter may survive, charged; rethrows the end of the budget. */
function survived(error: unknown): unknown {
  if (error === EXHAUSTED) throw error;
  spend(WORK_PER_ERROR);
  return error;
}

function mapOf(entries: readonly (readonly [RunnableFilter, RunnableFilter])[], scope: Scope): KeyedMap {
  return keyedMap(
    entries.map(([key, value]) => {
      spend(WORK_PER_ENTRY);
      const of = key(scope);
      if (typeof of === 'string') spend(of.length / CHARACTERS_PER_UNIT);
      return [of, value(scope)];
    }),
  );
}

/** `has(event.a.b)`: whether `event.a` has a `b`. */
function presence([path]: readonly ASTNode[], names: readonly string[]): RunnableFilter {
  if (path?.op !== '.') throw new Error('has() takes a field');
  const [object, name] = [runnable(path.args[0], names), path.args[1]];
  return (scope) => {
    const value = object(scope);
    return kindOf(value) === 'map' && entryOf(value as object, name) !== undefined;
  };
}

function call(name: string, args: readonly ASTNode[], names: readonly string[]): RunnableFilter {
  const apply = FUNCTIONS[name];
  const [argument, ...others] = args;
  if (apply === undefined || argument === undefined || others.length > 0)
    throw new Error(`${name} takes one value`);
  const of = runnable(argument, names);
  return (scope) => {
    spend(WORK_PER_CALL);
    return apply(of(scope));
  };
}

function method(
  name: string,
  target: ASTNode,
  args: readonly ASTNode[],
  names: readonly string[],
): RunnableFilter {
  const apply = METHODS[name];
  if (apply === undefined) throw new Error(`${name} is not available in a filter`);
  const [of, argument] = [runnable(target, names), args[0] && runnable(args[0], names)];
  return (scope) => {
    spend(WORK_PER_CALL);
    return apply(of(scope), argument?.(scope));
  };
}

/** A loop over the items of a list or the keys of a map. */
function loop(
  name: string,
  target: ASTNode,
  [id, body]: readonly ASTNode[],
  names: readonly string[],
): RunnableFilter {
  if (id?.op !== 'id' || body === undefined) throw new Error(`${name} takes a name and a condition`);
  const [of, condition] = [runnable(target, names), runnable(body, [...names, id.args])];
  return (outer) => {
    spend(WORK_PER_CALL);
    const items = itemsOf(of(outer), name);
    const scope: Scope = { value: undefined, outer };
    return name === 'exists_one'
      ? isTrueOnce(items, condition, scope)
      : quantified(items, condition, scope, name === 'exists');
  };
}

/** Whether the condition has the decisive value for an item; a failure counts where it has for none. */
function quantified(
  items: readonly unknown[],
  condition: RunnableFilter,
  scope: Scope,
  decisive: boolean,
): boolean {
  let failure: unknown;
  for (const item of items) {
    scope.value = item;
    try {
      if (asBool(condition(scope)) === decisive) return decisive;
    } catch (error) {
      // Each is charged, the first one is kept.
      const charged = survived(error);
      failure ??= charged;
    }
  }
  if (failure !== undefined) throw failure;
  return !decisive;
}

function isTrueOnce(items: readonly unknown[], condition: RunnableFilter, scope: Scope): boolean {
  let count = 0;
  for (const item of items) {
    scope.value = item;
    if (asBool(condition(scope))) count += 1;
  }
  return count === 1;
}

function itemsOf(value: unknown, name: string): readonly unknown[] {
  const kind = kindOf(value);
  if (kind === 'list') return value as readonly unknown[];
  if (kind !== 'map') throw new Error(`no such overload: ${kind}.${name}`);
  return value instanceof Map
    ? [...(value as KeyedMap).values()].map(({ key }) => key)
    : keysOf(value as object);
}

function binary(node: ASTNode, names: readonly string[]): RunnableFilter {
  const { op } = node;
  const parts = node.args as Pair; // `operationOf` has taken all others
  const [left, right] = [runnable(parts[0], names), runnable(parts[1], names)];
  if (op === '==') return (scope) => isEqual(left(scope), right(scope));
  if (op === '!=') return (scope) => !isEqual(left(scope), right(scope));
  if (op === 'in') return (scope) => isMember(left(scope), right(scope));
  const holds = COMPARISONS[op];
  if (holds !== undefined) return (scope) => isOrdered(op, left(scope), right(scope), holds);
  if (!Object.hasOwn(ARITHMETIC, op)) throw new Error(`${op} is not available in a filter`);
  return (scope) => computed(op, left(scope), right(scope));
}

/** Values of different kinds are not equal; numbers are one kind. */
function isEqual(a: unknown, b: unknown, depth = 0): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
    if (typeof a === 'string' && typeof b === 'string') spendForBoth(a, b);
    return a === b || equalNumbers(a, b);
  }
  const kind = kindOf(a);
  if (kind !== kindOf(b)) return equalNumbers(a, b);
  if (kind !== 'list' && kind !== 'map') {
    if (a instanceof Bytes && b instanceof Bytes) spendForBoth(a, b);
    return a === b || compareValues(a, b) === 0;
  }
  if (depth === MAX_DEPTH) throw new Error(`compares values that are nested more than ${MAX_DEPTH} deep`);
  return kind === 'list'
    ? areEqualLists(a as readonly unknown[], b as readonly unknown[], depth + 1)
    : areEqualMaps(a, b, depth + 1);
}

function areEqualLists(a: readonly unknown[], b: readonly unknown[], depth: number): boolean {
  if (a.length !== b.length) return false;
  return a.every((item, at) => {
    spend(WORK_PER_PART);
    return isEqual(item, b[at], depth);
  });
}

function areEqualMaps(a: object, b: object, depth: number): boolean {
  if (Number(sizeOf(a)) !== Number(sizeOf(b))) return false;
  return itemsOf(a, '==').every((key) => {
    spend(WORK_PER_LISTED_KEY);
    const other = entryOf(b, key);
    return other !== undefined && isEqual(entryOf(a, key), other, depth);
  });
}

function spendForBoth(a: { readonly length: number }, b: { readonly length: number }): void {
  const length = Math.min(a.length, b.length);
  if (length > SHORT_TEXT) spend(length / CHARACTERS_PER_UNIT);
}

function isMember(value: unknown, within: unknown): boolean {
  const kind = kindOf(within);
  if (kind === 'map') return entryOf(within as object, value) !== undefined;
  if (kind !== 'list') throw noOverload(kindOf(value), 'in', kind);
  return (within as readonly unknown[]).some((item) => {
    spend(WORK_PER_PART);
    return isEqual(value, item);
  });
}

function isOrdered(op: string, a: unknown, b: unknown, holds: (order: number) => boolean): boolean {
  if (typeof a === 'string' && typeof b === 'string') spendForBoth(a, b);
  if (a instanceof Bytes && b instanceof Bytes) spendForBoth(a, b);
  const order = compareValues(a, b);
  if (order === undefined) throw noOverload(kindOf(a), op, kindOf(b));
  return holds(order);
}

/** Integers stay integers, and with a double they give a double, as the numbers of events are doubles. */
function computed(op: string, a: unknown, b: unknown): unknown {
  const operation = ARITHMETIC[op];
  if (operation === undefined) throw noOverload(kindOf(a), op, kindOf(b));
  if (typeof a === 'bigint' && typeof b === 'bigint') return int64(operation.int(a, b));
  if (a instanceof Uint && b instanceof Uint) return new Uint(operation.int(a.value, b.value));
  const [first, second] = [doubleOperand(a), doubleOperand(b)];
  if (first !== undefined && second !== undefined && (typeof a === 'number' || typeof b === 'number'))
    return operation.double(first, second);
  const moment = momentOf(op, a, b);
  if (moment === undefined) throw noOverload(kindOf(a), op, kindOf(b));
  return moment;
}

function doubleOperand(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  return value instanceof Uint ? Number(value.value) : undefined;
}

/** Sums and differences of times and durations. */
function momentOf(op: string, a: unknown, b: unknown): Timestamp | Duration | undefined {
  if (op === '+') {
    if (a instanceof Duration && b instanceof Duration) return new Duration(a.nanos + b.nanos);
    if (a instanceof Timestamp && b instanceof Duration) return new Timestamp(a.nanos + b.nanos);
    if (a instanceof Duration && b instanceof Timestamp) return new Timestamp(a.nanos + b.nanos);
  }
  if (op === '-') {
    if (a instanceof Duration && b instanceof Duration) return new Duration(a.nanos - b.nanos);
    if (a instanceof Timestamp && b instanceof Duration) return new Timestamp(a.nanos - b.nanos);
    if (a instanceof Timestamp && b instanceof Timestamp) return new Duration(a.nanos - b.nanos);
  }
  return undefined;
}

function sizeOf(value: unknown): bigint {
  if (typeof value === 'string') {
    if (value.length > SHORT_TEXT) spend(value.length);
    let characters = 0;
    for (const _ of value) characters += 1;
    return BigInt(characters);
  }
  if (value instanceof Bytes || Array.isArray(value)) return BigInt(value.length);
  if (value instanceof Map) return BigInt(value.size);
  if (kindOf(value) === 'map') return BigInt(keysOf(value as object).length);
  throw new Error(`no such overload: size(${kindOf(value)})`);
}

/** The keys of an object. Listing many of them takes long, so a budget keeps them for all filters of the event. */
function keysOf(value: object): readonly string[] {
  const known = current.keys?.get(value);
  if (known !== undefined) return known;
  const keys = Object.keys(value);
  if (keys.length <= FEW_KEYS) {
    spend(keys.length);
    return keys;
  }
  current.keys ??= new Map();
  current.keys.set(value, keys);
  spend(keys.length * WORK_PER_LISTED_KEY);
  return keys;
}

/** A text that is read as a whole. */
function readText(value: unknown, name: string): string {
  const text = asText(value, name);
  if (text.length > SHORT_TEXT) spend(text.length);
  return text;
}

function asText(value: unknown, name: string): string {
  if (typeof value !== 'string') throw new Error(`no such overload: ${name} of ${kindOf(value)}`);
  return value;
}

function asBool(value: unknown): boolean {
  if (typeof value !== 'boolean') throw new Error(`${kindOf(value)} where it must say true or false`);
  return value;
}

const MAX_INT = 2n ** 63n - 1n;
const MIN_INT = -(2n ** 63n);

function int64(value: bigint): bigint {
  if (value > MAX_INT || value < MIN_INT) throw new Error(`integer overflow: ${value}`);
  return value;
}

/** CEL excludes the ends of the range: a double there may have been rounded. */
function int64OfDouble(value: number): bigint {
  if (!(value > Number(MIN_INT) && value < Number(MAX_INT))) throw new Error(`integer overflow: ${value}`);
  return BigInt(Math.trunc(value));
}

function doubleOf(text: string): number | undefined {
  const [, sign, special] = /^([+-]?)(inf|infinity|nan)$/i.exec(text) ?? [];
  if (special !== undefined) {
    if (special.toLowerCase() === 'nan') return Number.NaN;
    return sign === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }
  if (text.length > SHORT_TEXT) spend(text.length);
  return /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i.test(text) ? Number(text) : undefined;
}

function textOfDouble(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}

function noConversion(value: unknown, to: string): Error {
  const shown = typeof value === 'string' ? ` ${JSON.stringify(value.slice(0, 40))}` : '';
  return new Error(`${to}() cannot convert this ${kindOf(value)}${shown}`);
}

function noOverload(left: string, op: string, right: string): Error {
  return new Error(`no such overload: ${left} ${op} ${right}`);
}
