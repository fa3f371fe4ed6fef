/** By code units, as everywhere that two processes must agree; locales differ. */
export function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The very list that was there when nothing differs, so that callers tell by identity whether something changed. */
export function keptIfSame<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  return before.length === after.length && after.every((item, at) => item === before[at]) ? before : after;
}
