import type { Json, JsonObject } from '../settings/fields.ts';

/**
 * The value of a field of a mapping while it is edited, by the way in which it is edited. Every value of JSON has a draft, and
 * a draft that was not touched gives the same value: what has no input of its own is JSON.
 */
export type ValueDraft =
  | { readonly mode: 'none' }
  /** A text, number, flag or list of texts, the same for each event. */
  | { readonly mode: 'literal'; readonly value: Literal }
  | { readonly mode: 'path'; readonly text: string }
  | { readonly mode: 'template'; readonly text: string }
  | FirstDraft
  | ConditionDraft
  | ItemsDraft
  | ConvertedDraft
  | ObjectDraft
  | { readonly mode: 'json'; readonly text: string };

/** The first of several values that the event has: `@if`, each with the next as its `else`. */
export interface FirstDraft {
  readonly mode: 'first';
  readonly items: readonly ValueDraft[];
}

export interface ConditionDraft {
  readonly mode: 'condition';
  /** `blank`: the event has the value, and it is not empty. */
  readonly test: 'exists' | 'blank';
  readonly of: ValueDraft;
  readonly met: ValueDraft;
  readonly unmet: ValueDraft;
}

/** `@arrayPath`: an object of each item of a list. Its paths begin at the item. */
export interface ItemsDraft {
  readonly mode: 'items';
  readonly from: string;
  readonly shape: ObjectDraft;
}

/** A directive that makes one value of another. */
export interface ConvertedDraft {
  readonly mode: 'converted';
  readonly directive: string;
  /** Its members, of which `value` is the draft's. */
  readonly argument: JsonObject;
  readonly value: ValueDraft;
}

export interface ObjectDraft {
  readonly mode: 'object';
  readonly members: Readonly<Record<string, ValueDraft>>;
}

export type Literal = string | number | boolean | readonly string[];

export type ValueMode = ValueDraft['mode'];

export const NONE: ValueDraft = { mode: 'none' };
export const NO_PATH: ValueDraft = { mode: 'path', text: '' };

interface Conversion {
  readonly label: string;
  readonly directive: string;
  /** Members of the directive that make it this conversion. */
  readonly fixed: JsonObject;
  /** Members that are typed. */
  readonly texts: readonly string[];
}

export const CONVERSIONS: readonly Conversion[] = [
  { label: 'lower case', directive: '@case', fixed: { operator: 'lower' }, texts: [] },
  { label: 'upper case', directive: '@case', fixed: { operator: 'upper' }, texts: [] },
  { label: 'text replaced', directive: '@replace', fixed: {}, texts: ['pattern', 'replacement'] },
  { label: 'a text of JSON', directive: '@json', fixed: { mode: 'encode' }, texts: [] },
  { label: 'the value in a text of JSON', directive: '@json', fixed: { mode: 'decode' }, texts: [] },
  { label: 'an object without nesting', directive: '@flatten', fixed: {}, texts: ['separator'] },
];

export function conversionOf({ directive, argument }: Omit<ConvertedDraft, 'mode' | 'value'>) {
  const keys = Object.keys(argument).filter((key) => key !== 'value');
  return CONVERSIONS.find(
    ({ directive: of, fixed, texts }) =>
      of === directive &&
      keys.length === Object.keys(fixed).length + texts.length &&
      keys.every((key) =>
        texts.includes(key) ? typeof argument[key] === 'string' : fixed[key] === argument[key],
      ),
  );
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function valueDraftOf(value: Json | undefined): ValueDraft {
  if (value === undefined) return NONE;
  const draft = formOf(value);
  // A form may only show what it gives back.
  return draft !== undefined && JSON.stringify(jsonOf(draft)) === JSON.stringify(value)
    ? draft
    : { mode: 'json', text: JSON.stringify(value, null, 2) };
}

function formOf(value: Json): ValueDraft | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return { mode: 'literal', value };
  if (Array.isArray(value))
    return value.every((item: Json) => typeof item === 'string') ? { mode: 'literal', value } : undefined;
  if (!isObject(value)) return undefined;
  const [directive = '', ...more] = Object.keys(value);
  if (!Object.keys(value).some((key) => key.startsWith('@')))
    return {
      mode: 'object',
      members: Object.fromEntries(Object.entries(value).map(([key, one]) => [key, valueDraftOf(one)])),
    };
  return more.length > 0 ? undefined : directiveOf(directive, value[directive] ?? null);
}

function directiveOf(directive: string, argument: Json): ValueDraft | undefined {
  if (directive === '@path' && typeof argument === 'string') return { mode: 'path', text: argument };
  if (directive === '@template' && typeof argument === 'string') return { mode: 'template', text: argument };
  if (directive === '@arrayPath' && Array.isArray(argument)) {
    const [from, shape] = argument as readonly Json[];
    const draft = valueDraftOf(shape);
    return typeof from === 'string' && draft.mode === 'object'
      ? { mode: 'items', from, shape: draft }
      : undefined;
  }
  if (!isObject(argument)) return undefined;
  if (directive === '@if') return conditionOf(argument);
  return conversionOf({ directive, argument }) === undefined || argument.value === undefined
    ? undefined
    : { mode: 'converted', directive, argument, value: valueDraftOf(argument.value) };
}

function conditionOf({ exists, blank, then: met, else: unmet }: JsonObject): ValueDraft {
  const of = valueDraftOf(exists ?? blank);
  const rest = valueDraftOf(unmet);
  if (exists === undefined || JSON.stringify(exists) !== JSON.stringify(met))
    return {
      mode: 'condition',
      test: exists === undefined ? 'blank' : 'exists',
      of,
      met: valueDraftOf(met),
      unmet: rest,
    };
  // One item alone has no `else`.
  if (rest.mode === 'first' && rest.items.length > 1) return { mode: 'first', items: [of, ...rest.items] };
  return { mode: 'first', items: rest.mode === 'none' ? [of] : [of, rest] };
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
    case 'first':
      return firstOf(draft.items);
    case 'condition': {
      const { test, of, met, unmet } = draft;
      // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
      return { '@if': membersOf({ [test]: of, then: met, else: unmet }) };
    }
    case 'items':
      return { '@arrayPath': [draft.from, membersOf(draft.shape.members)] };
    case 'converted':
      return { [draft.directive]: { ...draft.argument, value: jsonOf(draft.value) ?? null } };
    case 'object':
      return membersOf(draft.members);
    case 'json':
      return parsed(draft.text)?.value;
  }
}

function membersOf(members: ObjectDraft['members']): JsonObject {
  return Object.fromEntries(
    Object.entries(members).flatMap(([key, member]): [string, Json][] => {
      const value = jsonOf(member);
      return value === undefined ? [] : [[key, value]];
    }),
  );
}

function firstOf([first = NONE, ...more]: readonly ValueDraft[]): Json {
  const value = jsonOf(first) ?? null;
  const [last = NONE] = more;
  const otherwise = more.length > 1 ? firstOf(more) : jsonOf(last);
  // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
  return { '@if': { exists: value, then: value, ...(otherwise === undefined ? {} : { else: otherwise }) } };
}

/** The drafts in a draft, by their places: JSON pointers below it. */
export function partsOf(draft: ValueDraft): readonly (readonly [path: string, part: ValueDraft])[] {
  switch (draft.mode) {
    case 'object':
      return Object.entries(draft.members).map(([key, member]) => [pointerOf(key), member]);
    case 'first': {
      const last = draft.items.length - 1;
      return draft.items.map((item, index) => [
        `${'/@if/else'.repeat(index)}${index > 0 && index === last ? '' : '/@if/then'}`,
        item,
      ]);
    }
    case 'condition':
      return [
        [`/@if/${draft.test}`, draft.of],
        ['/@if/then', draft.met],
        ['/@if/else', draft.unmet],
      ];
    case 'items':
      return [['/@arrayPath/1', draft.shape]];
    case 'converted':
      return [[`/${draft.directive}/value`, draft.value]];
    default:
      return [];
  }
}

interface ValueFault {
  /** JSON pointer below the value. */
  readonly path: string;
  readonly message: string;
}

/** What keeps a draft from being sent. The API checks everything else. */
export function valueFaults(draft: ValueDraft, path = ''): readonly ValueFault[] {
  const message = faultOf(draft);
  return [
    ...(message === undefined ? [] : [{ path, message }]),
    ...partsOf(draft).flatMap(([below, part]) => valueFaults(part, path + below)),
  ];
}

function faultOf(draft: ValueDraft): string | undefined {
  if (draft.mode === 'json' && parsed(draft.text) === undefined) return 'is not valid JSON';
  if (draft.mode === 'path' && draft.text.trim() === '') return 'must name a field';
  return draft.mode === 'items' && draft.from.trim() === '' ? 'must name a list' : undefined;
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
  const value = jsonOf(draft);
  const natural = valueDraftOf(value);
  if (mode === draft.mode || mode === natural.mode) return mode === draft.mode ? draft : natural;
  const inner = value === undefined ? NO_PATH : natural;
  const text = textOf(inner);
  switch (mode) {
    case 'none':
      return NONE;
    case 'literal':
      return { mode, value: text };
    case 'path':
      return { mode, text: pathIn(text) };
    case 'template':
      return { mode, text: inner.mode === 'path' ? `{{${text.replace(/^\$\./, '')}}}` : text };
    case 'first':
      return { mode, items: [inner, NO_PATH] };
    case 'condition':
      return { mode, test: 'exists', of: inner, met: { mode: 'literal', value: '' }, unmet: NONE };
    case 'items':
      return { mode, from: pathIn(text), shape: { mode: 'object', members: {} } };
    case 'converted':
      return { mode, directive: '@case', argument: { operator: 'lower', value: null }, value: inner };
    case 'object':
      return { mode, members: {} };
    case 'json':
      return { mode, text: JSON.stringify(value ?? null, null, 2) };
  }
}

/** A path, or the one in a template that consists of it alone. */
function pathIn(text: string): string {
  const name = /^\{\{\{?([^{}]+)\}?\}\}$/.exec(text)?.[1]?.trim();
  if (name !== undefined) return name.startsWith('$.') ? name : `$.${name}`;
  return text.startsWith('$.') ? text : '';
}

/** The text of a draft, or of the first of its parts. */
function textOf(draft: ValueDraft): string {
  if (draft.mode === 'path' || draft.mode === 'template') return draft.text;
  if (draft.mode === 'literal') return Array.isArray(draft.value) ? '' : String(draft.value);
  if (draft.mode === 'items') return draft.from;
  const [, part] = draft.mode === 'object' ? [] : (partsOf(draft)[0] ?? []);
  return part === undefined ? '' : textOf(part);
}

/** The members that are the same for each event, without the one that a JSON pointer is in. */
export function constantsIn({ members }: ObjectDraft, without = ''): JsonObject {
  const isWithout = (key: string) => `${without}/`.startsWith(`${pointerOf(key)}/`);
  return membersOf(
    Object.fromEntries(
      Object.entries(members).filter(([key, member]) => isConstant(member) && !isWithout(key)),
    ),
  );
}

function isConstant(draft: ValueDraft): boolean {
  return (
    draft.mode === 'literal' || (draft.mode === 'object' && Object.values(draft.members).every(isConstant))
  );
}
