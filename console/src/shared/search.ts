/** A part of the URL's search that is one of some words; undefined for anything else. */
export function wordOf<const Word extends string>(
  search: Record<string, unknown>,
  name: string,
  words: readonly Word[],
): Word | undefined {
  return words.find((word) => word === search[name]);
}

/** A part of the URL's search that is a text. */
export function textOf(search: Record<string, unknown>, name: string): string | undefined {
  const value = search[name];
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Without the members that are undefined: what is not set is not in the URL. */
export function definedOf<T extends object>(search: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
