/** A field whose typed value differs from the stored one. */
export interface FieldDifference {
  readonly field: string;
  /** The value when the form was opened. */
  readonly base: unknown;
  readonly mine: unknown;
  readonly stored: unknown;
  readonly isMine: boolean;
  /** Both versions changed the field: only one of the values can stay. */
  readonly isClash: boolean;
}

export function differencesOf<V extends object>(base: V, mine: V, stored: V): readonly FieldDifference[] {
  return fieldsOf(base, mine, stored)
    .filter((field) => !isSame(mine[field], stored[field]))
    .map((field) => {
      const isMine = !isSame(mine[field], base[field]);
      return {
        field: String(field),
        base: base[field],
        mine: mine[field],
        stored: stored[field],
        isMine,
        isClash: isMine && !isSame(stored[field], base[field]),
      };
    });
}

/** The stored version with the typed fields on top. */
export function mergedOf<V extends object>(base: V, mine: V, stored: V): V {
  const merged = { ...stored };
  for (const field of fieldsOf(base, mine, stored))
    if (!isSame(mine[field], base[field])) merged[field] = mine[field];
  return merged;
}

function fieldsOf<V extends object>(...versions: readonly V[]): readonly (keyof V)[] {
  return [...new Set(versions.flatMap((version) => Object.keys(version) as (keyof V)[]))];
}

/** Whether two values of JSON are the same; the order of keys does not count, and `undefined` is a missing key. */
export function isSame(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  if (Array.isArray(left) && left.length !== (right as readonly unknown[]).length) return false;
  const [one, other] = [left as Record<string, unknown>, right as Record<string, unknown>];
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].every((key) =>
    isSame(one[key], other[key]),
  );
}
