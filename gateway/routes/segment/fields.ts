export type Fields = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** An empty list is how PHP writes an empty object. */
export function objectOf(value: unknown): unknown {
  return Array.isArray(value) && value.length === 0 ? {} : value;
}

/** RudderStack's browser SDK writes an id that it does not have as an empty text. */
export function textOf(value: unknown): unknown {
  return value === '' ? undefined : value;
}

/** `null` means the same as absent. */
export function withoutAbsent(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
}
