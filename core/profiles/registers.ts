import { canonicalJson } from '../contracts/json-values.ts';
import { compareText, keptIfSame } from './order.ts';
import { byOrigin } from './origins.ts';
import type { NamedRegister, NewNamed, Register } from './profile.ts';

/** Of what no event wrote. */
const NO_ORDER = -1;

/**
 * The one that wins: the newer, of two of the same time the one of the later event, then the one with the greater JSON;
 * a value wins over an unset. Then the one that has an origin, or the smaller one. The left one of equals.
 */
export function newerOf<T extends Register>(left: T, right: T): T {
  if (left.ts !== right.ts) return left.ts > right.ts ? left : right;
  const order = (left.order ?? NO_ORDER) - (right.order ?? NO_ORDER);
  if (order !== 0) return order > 0 ? left : right;
  const text = compareText(textOf(left), textOf(right));
  if (text !== 0) return text > 0 ? left : right;
  return byOrigin(left, right);
}

/** A `null` that is kept as a value differs from an unset. */
function textOf({ value, unset }: Pick<Register, 'value' | 'unset'>): string {
  return unset === true ? '' : canonicalJson(value);
}

/** The register so that it wins over the one it replaces, where both have the same time and different values. */
export function afterReplaced<T extends Register>(written: T, held: Register | undefined): T {
  if (held?.ts !== written.ts || textOf(held) === textOf(written)) return written;
  return { ...written, order: (held.order ?? NO_ORDER) + 1 };
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

/** As `stampAttributes`. */
export function stampNamed(
  held: readonly NamedRegister[],
  written: readonly NewNamed[],
  ts: number | undefined,
  now: number,
): readonly NamedRegister[] {
  const byName = new Map(held.map((register) => [register.name, register]));
  return written.map(({ ts: own = ts, ...register }) => {
    const replaced = byName.get(register.name);
    const stamp = own ?? Math.max(now, (replaced?.ts ?? Number.NEGATIVE_INFINITY) + 1);
    return afterReplaced({ ...register, ts: stamp }, replaced);
  });
}
