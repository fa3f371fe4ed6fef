import type { ErrorObject } from 'ajv';
import type { ViolationKind } from './violation.ts';

/** Characters of what the schema expects that a message may quote. */
const MAX_QUOTED = 120;

/** What a compiler's error is called, and what to tell people: what was expected, never what was there. */
interface Wording {
  readonly kind: ViolationKind;
  readonly say: (params: Readonly<Record<string, unknown>>, error: ErrorObject) => string;
}

function wording(kind: ViolationKind, say: Wording['say'] | string): Wording {
  return { kind, say: typeof say === 'string' ? () => say : say };
}

function cut(text: string): string {
  return text.length <= MAX_QUOTED ? text : `${text.slice(0, MAX_QUOTED)}…`;
}

function atMost(what: string): Wording {
  return wording('bounds', ({ limit }) => `must have at most ${limit} ${what}`);
}

function atLeast(what: string): Wording {
  return wording('bounds', ({ limit }) => `must have at least ${limit} ${what}`);
}

const ARTICLE = new Map([
  ['integer', 'an integer'],
  ['object', 'an object'],
  ['array', 'an array'],
  ['null', 'null'],
]);

/** "a string or null" */
export function typeNames(types: unknown): string {
  const names = (Array.isArray(types) ? types : [types]).map(String);
  return names.map((name) => ARTICLE.get(name) ?? `a ${name}`).join(' or ');
}

function quoted(values: unknown): string {
  if (!Array.isArray(values)) return '';
  return cut(
    values
      .slice(0, MAX_QUOTED)
      .map((value) => JSON.stringify(value))
      .join(', '),
  );
}

const WORDINGS: ReadonlyMap<string, Wording> = new Map([
  ['required', wording('required', 'is required')],
  ['dependentRequired', wording('required', ({ property }) => `is required beside ${cut(String(property))}`)],
  ['dependencies', wording('required', ({ property }) => `is required beside ${cut(String(property))}`)],
  ['type', wording('type', ({ type }) => `must be ${typeNames(type)}`)],
  ['enum', wording('enum', (_, error) => `must be one of ${quoted(error.schema)}`)],
  ['const', wording('enum', (_, error) => `must be ${quoted([error.schema])}`)],
  ['format', wording('format', ({ format }) => `must have the format ${format}`)],
  ['pattern', wording('pattern', ({ pattern }) => `must match the pattern ${cut(String(pattern))}`)],
  ['minimum', wording('bounds', ({ limit }) => `must be at least ${limit}`)],
  ['maximum', wording('bounds', ({ limit }) => `must be at most ${limit}`)],
  ['exclusiveMinimum', wording('bounds', ({ limit }) => `must be more than ${limit}`)],
  ['exclusiveMaximum', wording('bounds', ({ limit }) => `must be less than ${limit}`)],
  ['multipleOf', wording('bounds', (_, error) => `must be a multiple of ${error.schema}`)],
  ['minLength', atLeast('characters')],
  ['maxLength', atMost('characters')],
  ['minItems', atLeast('items')],
  ['maxItems', atMost('items')],
  ['items', atMost('items')],
  ['unevaluatedItems', atMost('items')],
  ['minProperties', atLeast('fields')],
  ['maxProperties', atMost('fields')],
  ['uniqueItems', wording('bounds', 'must have no two items alike')],
  ['additionalProperties', wording('undeclared', 'is not declared')],
  ['unevaluatedProperties', wording('undeclared', 'is not declared')],
  ['propertyNames', wording('schema', 'has a name that is not allowed')],
  [
    'contains',
    wording(
      'schema',
      ({ minContains }) => `must contain at least ${minContains} items of the kind asked for`,
    ),
  ],
  ['anyOf', wording('schema', 'must match one of the alternatives')],
  ['oneOf', wording('schema', 'must match exactly one of the alternatives')],
  ['not', wording('schema', 'has a value that is not allowed')],
]);

const OTHER = wording('schema', 'does not match the schema');

export function kindOf(error: ErrorObject): ViolationKind {
  return (WORDINGS.get(error.keyword) ?? OTHER).kind;
}

export function messageFor(error: ErrorObject): string {
  return (WORDINGS.get(error.keyword) ?? OTHER).say(error.params, error);
}
