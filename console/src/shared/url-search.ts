/** The parameters of a URL as the router parsed them: of any type. */
export type RawSearch = Readonly<Record<string, unknown>>;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A text parameter; a number counts, as the router parses `q=12` as one. */
export function textIn(search: RawSearch, name: string): string | undefined {
  const value = search[name];
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function idIn(search: RawSearch, name: string): string | undefined {
  const value = textIn(search, name);
  return value !== undefined && UUID.test(value) ? value : undefined;
}

export function oneIn<T extends string>(
  search: RawSearch,
  name: string,
  options: readonly T[],
): T | undefined {
  return options.find((option) => option === textIn(search, name));
}

export function wholeIn(search: RawSearch, name: string, min: number, max: number): number | undefined {
  const value = Number(search[name] ?? Number.NaN);
  return Number.isInteger(value) && value >= min && value <= max ? value : undefined;
}

/** Omits undefined values, so that they do not appear in the URL. */
export function stated<T extends object>(search: T): Stated<T> {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as Stated<T>;
}

type Stated<T> = { readonly [Name in keyof T]?: Exclude<T[Name], undefined> };
