import type { Field, Json, JsonObject } from './fields.ts';

/** Stands for a stored secret in the answers of the API. */
export const MASK = '********';

/** The value of a field while it is edited. Its shape depends on the kind of the field, see `plainDraft`. */
export type Draft = string | number | boolean | readonly Draft[] | { readonly [name: string]: Draft };

/**
 * Whether a stored secret is kept, removed, or replaced by a typed one. The draft of a secret is `{ stored, state, value }`.
 */
type SecretState = 'kept' | 'removed' | 'stated';

interface Fault {
  /** Path in the draft, as the form names it: `actions.0.subscribe`. */
  readonly path: string;
  readonly message: string;
}

/** The initial draft of a field: the stored value, or for a new resource the default of the schema. */
export function draftOf(field: Field, stored: Json | undefined, isNew = stored === undefined): Draft {
  if (!field.secret) return plainDraft(field, stored ?? (isNew ? field.default : undefined), isNew);
  const isStored = stored === MASK;
  const state: SecretState = isStored ? 'kept' : 'stated';
  return { stored: isStored, state, value: plainDraft(field, isStored ? undefined : stored, isNew) };
}

function plainDraft(field: Field, value: Json | undefined, isNew: boolean): Draft {
  switch (field.kind) {
    case 'text':
      return typeof value === 'string' ? value : '';
    case 'number':
      return typeof value === 'number' ? value : '';
    case 'boolean':
      return typeof value === 'boolean' ? value : field.default === true;
    case 'constant':
      return '';
    case 'choice':
      return value === undefined || value === null ? '' : String(value);
    case 'choices':
    case 'texts':
      return Array.isArray(value) ? value.map(String) : [];
    case 'pairs':
      return isObject(value)
        ? Object.entries(value).map(([name, text]) => ({ name, value: String(text) }))
        : [];
    case 'group': {
      const values = isObject(value) ? value : {};
      return Object.fromEntries(
        field.fields.map((inner) => [inner.name, draftOf(inner, values[inner.name], isNew)]),
      );
    }
    case 'list':
      return Array.isArray(value) ? value.map((item: Json) => draftOf(field.item, item, false)) : [];
    case 'variants': {
      const found = field.variants.findIndex((variant) => value !== undefined && fits(variant, value));
      const chosen = found === -1 && (field.required || value !== undefined) ? 0 : found;
      return {
        chosen: chosen === -1 ? '' : String(chosen),
        values: field.variants.map((variant, index) =>
          draftOf(variant, index === chosen ? value : undefined, isNew || index !== chosen),
        ),
      };
    }
    case 'json':
      return value === undefined ? '' : JSON.stringify(value, null, 2);
  }
}

/** The draft of a new item of a list. */
export function emptyDraft(field: Field): Draft {
  return draftOf(field, undefined, true);
}

/**
 * The value to send. Undefined: send none, which keeps a stored secret and omits any other setting; null: remove the secret.
 */
export function settingOf(field: Field, draft: Draft | undefined): Json | undefined {
  if (field.readOnly) return undefined;
  if (!field.secret) return plainValue(field, draft);
  const { state, value } = secretOf(draft);
  if (state === 'removed') return null;
  return state === 'kept' ? undefined : plainValue(field, value);
}

function plainValue(field: Field, draft: Draft | undefined): Json | undefined {
  switch (field.kind) {
    case 'text':
      return typeof draft === 'string' && draft !== '' ? draft : undefined;
    case 'number':
      return typeof draft === 'number' ? draft : numberOf(draft);
    case 'boolean':
      return draft === true;
    case 'constant':
      return field.value;
    case 'choice':
      return field.options.find((option) => String(option) === draft);
    case 'choices':
    case 'texts':
      return filled(field, Array.isArray(draft) ? draft.map(String).filter((text) => text !== '') : []);
    case 'pairs': {
      const pairs = pairsOf(draft).filter(({ name }) => name !== '');
      return pairs.length === 0
        ? undefined
        : Object.fromEntries(pairs.map(({ name, value }) => [name, value]));
    }
    case 'group': {
      const values = isDraftObject(draft) ? draft : {};
      const entries = field.fields.flatMap((inner): [string, Json][] => {
        const value = settingOf(inner, values[inner.name]);
        return value === undefined ? [] : [[inner.name, value]];
      });
      return entries.length === 0 && !field.required ? undefined : Object.fromEntries(entries);
    }
    case 'list':
      return filled(
        field,
        (Array.isArray(draft) ? draft : []).flatMap((item: Draft) => {
          const value = settingOf(field.item, item);
          return value === undefined ? [] : [value];
        }),
      );
    case 'variants': {
      const { variant, value } = chosenOf(field, draft);
      return variant === undefined ? undefined : settingOf(variant, value);
    }
    case 'json':
      return parsed(draft)?.value;
  }
}

function filled(field: Field, items: readonly Json[]): readonly Json[] | undefined {
  return items.length === 0 && !field.required ? undefined : items;
}

/** The chosen variant with its own draft; none where an optional field has no choice. */
export function chosenOf(field: Field & { readonly kind: 'variants' }, draft: Draft | undefined) {
  const { chosen, values } = isDraftObject(draft) ? draft : {};
  const index = chosen === '' ? -1 : Number(chosen ?? 0);
  const value = Array.isArray(values) ? (values[index] as Draft) : undefined;
  return { index, variant: field.variants[index], value };
}

/** The faults of a draft before it is sent. The API checks all of them again, and more. */
export function faultsOf(field: Field, draft: Draft | undefined, path = ''): readonly Fault[] {
  if (field.readOnly) return [];
  if (!field.secret) return plainFaults(field, draft, path);
  const { stored, state, value } = secretOf(draft);
  if (state !== 'stated' || (stored && plainValue(field, value) === undefined)) return [];
  return plainFaults(field, value, below(path, 'value'));
}

function plainFaults(field: Field, draft: Draft | undefined, path: string): readonly Fault[] {
  if (field.kind === 'group') {
    const values = isDraftObject(draft) ? draft : {};
    if (!field.required && plainValue(field, draft) === undefined) return [];
    return field.fields.flatMap((inner) => faultsOf(inner, values[inner.name], below(path, inner.name)));
  }
  if (field.kind === 'variants') {
    const { index, variant, value } = chosenOf(field, draft);
    return variant === undefined ? [] : faultsOf(variant, value, below(path, `values.${index}`));
  }
  if (field.kind === 'json' && draft !== '' && typeof draft === 'string') {
    const message = jsonFault(field, draft);
    return message === undefined ? [] : [{ path, message }];
  }
  const value = plainValue(field, draft);
  if (value === undefined || (Array.isArray(value) && value.length === 0))
    return field.required ? [{ path, message: 'is required' }] : [];
  if (field.kind === 'list')
    return (Array.isArray(draft) ? draft : []).flatMap((item: Draft, index) =>
      faultsOf(field.item, item, below(path, String(index))),
    );
  const message = boundFault(field, value);
  return message === undefined ? [] : [{ path, message }];
}

function boundFault(field: Field, value: Json): string | undefined {
  if (field.kind === 'number' && typeof value === 'number') {
    if (field.integer && !Number.isInteger(value)) return 'must be a whole number';
    if (field.minimum !== undefined && value < field.minimum) return `must be at least ${field.minimum}`;
    if (field.maximum !== undefined && value > field.maximum) return `must be at most ${field.maximum}`;
  }
  if (field.kind === 'text' && typeof value === 'string') {
    const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern } = field;
    if (value.length < minLength) return `must have at least ${minLength} characters`;
    if (value.length > maxLength) return `must have at most ${maxLength} characters`;
    if (!matches(pattern, value)) return formMessage(field.example);
  }
  if (field.kind === 'texts' && Array.isArray(value)) {
    const wrong = value.find((text: Json) => !matches(field.pattern, String(text)));
    if (wrong !== undefined) return `${JSON.stringify(wrong)} ${formMessage(firstOf(field.example))}`;
    if (field.maxItems !== undefined && value.length > field.maxItems)
      return `must be at most ${field.maxItems}`;
  }
  return undefined;
}

function formMessage(example: Json | undefined): string {
  return typeof example === 'string'
    ? `must have a form such as ${example}`
    : 'does not have the form that is needed';
}

function firstOf(value: Json | undefined): Json | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function matches(pattern: string | undefined, text: string): boolean {
  if (pattern === undefined) return true;
  try {
    return new RegExp(pattern, 'u').test(text);
  } catch {
    return true; // no pattern of JavaScript: the API decides
  }
}

function jsonFault(field: Field & { readonly kind: 'json' }, text: string): string | undefined {
  const found = parsed(text);
  if (found === undefined) return 'is not valid JSON';
  if (field.type === 'object' && !isObject(found.value)) return 'must be a JSON object';
  if (field.type === 'array' && !Array.isArray(found.value)) return 'must be a JSON array';
  return undefined;
}

function parsed(text: Draft | undefined): { readonly value: Json } | undefined {
  if (typeof text !== 'string' || text.trim() === '') return undefined;
  try {
    return { value: JSON.parse(text) as Json };
  } catch {
    return undefined;
  }
}

/** Maps a JSON pointer into the settings, of a fault that the API found, to a path in the draft. */
export function draftPathOf(
  field: Field,
  pointer: readonly string[],
  draft: Draft | undefined,
  path = '',
): string {
  const inner = field.secret ? below(path, 'value') : path;
  const value = field.secret && isDraftObject(draft) ? draft.value : draft;
  const [name = '', ...rest] = pointer;
  if (field.kind === 'variants') {
    const { index, variant, value: chosen } = chosenOf(field, value);
    return variant === undefined
      ? inner
      : draftPathOf(variant, pointer, chosen, below(inner, `values.${index}`));
  }
  if (pointer.length === 0) return inner;
  if (field.kind === 'group') {
    const next = field.fields.find((one) => one.name === name);
    if (next === undefined) return inner;
    return draftPathOf(next, rest, isDraftObject(value) ? value[name] : undefined, below(inner, name));
  }
  if (field.kind === 'list')
    return draftPathOf(
      field.item,
      rest,
      Array.isArray(value) ? value[Number(name)] : undefined,
      below(inner, name),
    );
  return inner;
}

/** The draft of a secret; `stored`: the API has a value for it. */
export function secretOf(draft: Draft | undefined): {
  readonly stored: boolean;
  readonly state: SecretState;
  readonly value: Draft | undefined;
} {
  const { stored, state, value } = isDraftObject(draft) ? draft : {};
  return {
    stored: stored === true,
    state: state === 'kept' || state === 'removed' ? state : 'stated',
    value,
  };
}

/** Whether a stored value fits the field: by type, constants and required members. */
function fits(field: Field, value: Json): boolean {
  switch (field.kind) {
    case 'text':
      return typeof value === 'string';
    case 'number':
      return typeof value === 'number';
    case 'boolean':
      return typeof value === 'boolean';
    case 'constant':
      return value === field.value;
    case 'choice':
      return field.options.includes(value);
    case 'choices':
    case 'texts':
    case 'list':
      return Array.isArray(value);
    case 'pairs':
      return isObject(value);
    case 'group':
      return isObject(value) && field.fields.every((inner) => fitsIn(inner, value[inner.name]));
    case 'variants':
      return field.variants.some((variant) => fits(variant, value));
    case 'json':
      return true;
  }
}

function fitsIn(field: Field, value: Json | undefined): boolean {
  if (value === undefined || value === null) return !field.required;
  return field.secret || fits(field, value);
}

export function pairsOf(
  draft: Draft | undefined,
): readonly { readonly name: string; readonly value: string }[] {
  return (Array.isArray(draft) ? draft : []).map((pair: Draft) => {
    const { name = '', value = '' } = isDraftObject(pair) ? pair : {};
    return { name: String(name), value: String(value) };
  });
}

function numberOf(draft: Draft | undefined): number | undefined {
  if (typeof draft !== 'string' || draft.trim() === '') return undefined;
  const value = Number(draft);
  return Number.isFinite(value) ? value : undefined;
}

function below(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

export function isDraftObject(draft: Draft | undefined): draft is { readonly [name: string]: Draft } {
  return typeof draft === 'object' && draft !== null && !Array.isArray(draft);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
