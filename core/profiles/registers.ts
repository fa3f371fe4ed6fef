import { canonicalJson } from '../contracts/json-values.ts';
import { compareText, keptIfSame } from './order.ts';
import type { NamedRegister, NewNamed, Register } from './profile.ts';

/** Of what no event wrote. */
const NO_ORDER = -1;

/**
 * The one that wins: the newer, of two of the same time the one of the later event, then the one with the greater JSON.
 * The left one of equals.
 */
export function newerOf<T extends Register>(left: T, right: T): T {
  if (left.ts !== right.ts) return left.ts > right.ts ? left : right;
  const order = (left.order ?? NO_ORDER) - (right.order ?? NO_ORDER);
  if (order !== 0) return order > 0 ? left : right;
  return compareText(canonicalJson(left.value), canonicalJson(right.value)) >= 0 ? left : right;
}

/**
 * Both lists as one, each name once. Sorted; the left list itself when the right one has nothing newer. Associative,
 * commutative and idempotent but for which of two equal registers it is.
 */
export function joinNamed(
  left: readonly NamedRegister[],
  right: readonly NamedRegister[],
): readonly NamedRegister[] {
  if (right.length === 0) return left;
  const byName = new Map(left.map((register) => [register.name, register]));
  for (const register of right) {
    const held = byName.get(register.name);
    byName.set(register.name, held === undefined ? register : newerOf(held, register));
  }
  return keptIfSame(
    left,
    [...byName.values()].sort((a, b) => compareText(a.name, b.name)),
  );
}

/** What is written, each with its time: its own, else `ts`, else one later than what it replaces in `held`. */
export function stampNamed(
  held: readonly NamedRegister[],
  written: readonly NewNamed[],
  ts: number | undefined,
  now: number,
): readonly NamedRegister[] {
  const times = new Map(held.map((register) => [register.name, register.ts]));
  return written.map(({ name, value, ts: own = ts }) => ({
    name,
    value,
    ts: own ?? Math.max(now, (times.get(name) ?? Number.NEGATIVE_INFINITY) + 1),
  }));
}
