import type { Json, JsonObject } from '../settings/fields.ts';

/**
 * The value of a field of a mapping while it is edited, by the way in which it is edited. Every value of JSON has a draft, and
 * a draft that was not touched gives the same value: what has no input of its own is JSON.
 */
export type ValueDraft =
  | { readonly mode: 'none' }
  /** A text, number, flag or list of texts, the same for each event. */
  | { readonly mode: 'literal'; readonly value: string | number | boolean | readonly string[] }
  | { readonly mode: 'path'; readonly text: string }
  | { readonly mode: 'template'; readonly text: string }
  | ObjectDraft
  | { readonly mode: 'json'; readonly text: string };

export interface ObjectDraft {
  readonly mode: 'object';
  readonly members: Readonly<Record<string, ValueDraft>>;
}

export type ValueMode = ValueDraft['mode'];

export const NONE: ValueDraft = { mode: 'none' };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function valueDraftOf(value: Json | undefined): ValueDraft {
  if (value === undefined) return NONE;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return { mode: 'literal', value };
  if (Array.isArray(value) && value.every((item: Json) => typeof item === 'string'))
    return { mode: 'literal', value };
  if (isObject(value)) {
    const keys = Object.keys(value);
    if (keys.every((key) => !key.startsWith('@')))
      return {
        mode: 'object',
        members: Object.fromEntries(keys.map((key) => [key, valueDraftOf(value[key])])),
      };
    const { '@path': path, '@template': template } = value;
    if (keys.length === 1 && typeof path === 'string') return { mode: 'path', text: path };
    if (keys.length === 1 && typeof template === 'string') return { mode: 'template', text: template };
  }
  return { mode: 'json', text: JSON.stringify(value, null, 2) };
}

/** The value to send; undefined for none, and for JSON that cannot be parsed, which `valueFaults` reports. */
export function jsonOf(draft: ValueDraft): Json | undefined {
  switch (draft.mode) {
    case 'none':
      return undefined;
    case 'literal':
      return draft.value;
    case 'path':
      return { '@path': draft.text };
    case 'template':
      return { '@template': draft.text };
    case 'object':
      return Object.fromEntries(
        Object.entries(draft.members).flatMap(([key, member]): [string, Json][] => {
          const value = jsonOf(member);
          return value === undefined ? [] : [[key, value]];
        }),
      );
    case 'json':
      return parsed(draft.text)?.value;
  }
}

interface ValueFault {
  /** JSON pointer below the value. */
  readonly path: string;
  readonly message: string;
}

/** What keeps a draft from being sent. The API checks everything else. */
export function valueFaults(draft: ValueDraft, path = ''): readonly ValueFault[] {
  if (draft.mode === 'object')
    return Object.entries(draft.members).flatMap(([key, member]) =>
      valueFaults(member, path + pointerOf(key)),
    );
  if (draft.mode === 'json' && parsed(draft.text) === undefined)
    return [{ path, message: 'is not valid JSON' }];
  if (draft.mode === 'path' && draft.text.trim() === '') return [{ path, message: 'must name a field' }];
  return [];
}

function parsed(text: string): { readonly value: Json } | undefined {
  try {
    return { value: JSON.parse(text) as Json };
  } catch {
    return undefined;
  }
}

export function pointerOf(...keys: readonly (string | number)[]): string {
  return keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** The draft in another way of editing, with as much of its content as that can hold. */
export function inMode(draft: ValueDraft, mode: ValueMode): ValueDraft {
  if (mode === draft.mode) return draft;
  const text = draft.mode === 'path' || draft.mode === 'template' ? draft.text : literalText(draft);
  switch (mode) {
    case 'none':
      return NONE;
    case 'literal':
      return { mode, value: text };
    case 'path':
      return { mode, text: draft.mode === 'template' ? pathIn(text) : text.startsWith('$.') ? text : '' };
    case 'template':
      return { mode, text: draft.mode === 'path' ? `{{${text.replace(/^\$\./, '')}}}` : text };
    case 'object': {
      const value = jsonOf(draft);
      const own = value === undefined ? NONE : valueDraftOf(value);
      return own.mode === 'object' ? own : { mode, members: {} };
    }
    case 'json':
      return { mode, text: JSON.stringify(jsonOf(draft) ?? null, null, 2) };
  }
}

/** The path in a template that consists of it alone. */
function pathIn(template: string): string {
  const name = /^\{\{\{?([^{}]+)\}?\}\}$/.exec(template)?.[1]?.trim();
  return name === undefined ? '' : name.startsWith('$.') ? name : `$.${name}`;
}

function literalText(draft: ValueDraft): string {
  if (draft.mode === 'json') {
    const value = parsed(draft.text)?.value;
    return typeof value === 'object' || value === undefined ? '' : String(value);
  }
  return draft.mode === 'literal' && !Array.isArray(draft.value) ? String(draft.value) : '';
}
