import { isUtf8 } from 'node:buffer';
import type { ErrorDetail } from './errors.ts';

/** Deeper bodies are refused: nothing people send needs it, and recursion elsewhere relies on it. */
export const MAX_DEPTH = 64;

export type ParsedJson =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly fault: ErrorDetail };

/**
 * Parses a body strictly: valid UTF-8, valid JSON, no key twice in one object, no `__proto__`, no half of a surrogate
 * pair, no number that is infinite to JavaScript, bounded depth. What would silently change on its way is refused
 * instead: of two equal keys `JSON.parse` keeps the last, two texts that differ in a lone surrogate alone are the same
 * bytes in UTF-8, and `1e999` would be written as `null`.
 */
export function parseJson(body: Buffer): ParsedJson {
  if (!isUtf8(body)) return refuse('is not valid UTF-8');
  const text = body.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse('is not valid JSON');
  }
  const census = { members: 0, fault: undefined as ErrorDetail | undefined };
  count(value, 0, census);
  if (census.fault !== undefined) return { ok: false, fault: census.fault };
  if (census.members !== membersInText(text)) return refuse('holds the same key twice in one object');
  if (text.includes('\\') && SURROGATE_ESCAPE.test(text) && !isWellFormed(value))
    return refuse('holds half of a surrogate pair');
  return { ok: true, value };
}

function refuse(message: string): ParsedJson {
  return { ok: false, fault: { path: '', message } };
}

function count(
  value: unknown,
  depth: number,
  census: { members: number; fault: ErrorDetail | undefined },
): void {
  if (typeof value !== 'object' || value === null) {
    if (value === Infinity || value === -Infinity)
      census.fault = { path: '', message: 'holds a number that is too large' };
    return;
  }
  if (depth >= MAX_DEPTH) {
    census.fault = { path: '', message: `is nested more than ${MAX_DEPTH} levels deep` };
    return;
  }
  if (Array.isArray(value)) {
    for (const item of value) count(item, depth + 1, census);
    return;
  }
  const record = value as Record<string, unknown>;
  for (const key in record) {
    census.members++;
    if (key === '__proto__') {
      census.fault = { path: '', message: 'holds the key __proto__' };
      return;
    }
    count(record[key], depth + 1, census);
  }
}

/** Valid UTF-8 holds no surrogates: in what was parsed from it they can only come from an escape. */
const SURROGATE_ESCAPE = /\\u[dD]/;

/** Whether every text in a value, keys included, can be written as UTF-8 and read back. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  return Object.entries(value).every(([key, member]) => key.isWellFormed() && isWellFormed(member));
}

const QUOTE = 34;
const COLON = 58;
const BACKSLASH = 92;

/** Members of all objects in a valid JSON text: the colons outside of strings. */
function membersInText(text: string): number {
  let members = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === COLON) members++;
    else if (code === QUOTE) i = endOfString(text, i);
  }
  return members;
}

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end === -1 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}
