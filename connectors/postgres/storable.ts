import { parseExact } from '@tributary/core';

/** What PostgreSQL refuses in a text: U+0000, which ends a string there, and half of a surrogate pair. */
const ESCAPES = /\\u(?:0000|d[89a-f])/i;

/** The text with U+FFFD in place of each character that PostgreSQL has no way to store. */
export function storableText(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed();
}

/** JSON for a column of type `jsonb`: the same, in names and values at any depth. Numbers keep their digits. */
export function storableJson(json: string): string {
  return ESCAPES.test(json) ? JSON.stringify(storable(parseExact(json))) : json;
}

function storable(value: unknown): unknown {
  if (typeof value === 'string') return storableText(value);
  if (Array.isArray(value)) return value.map(storable);
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, of]) => [storableText(name), storable(of)]));
}
