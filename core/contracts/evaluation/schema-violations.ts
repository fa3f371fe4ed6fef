import type { ErrorObject } from 'ajv';
import { below } from '../json-values.ts';
import { MAX_VIOLATIONS, type SchemaViolation, type ViolationKind } from '../violation.ts';

/** A longer path is cut: a field's name may be as long as the event. */
export const MAX_PATH_LENGTH = 1_000;

/** Up to so many alternatives are compared by type to word the failure of all of them. */
const MAX_ALTERNATIVES = 20;

export function cutPath(path: string): string {
  return path.length <= MAX_PATH_LENGTH ? path : `${path.slice(0, MAX_PATH_LENGTH)}…`;
}

/** The members of an error's `params` that name the field concerned, where that is not the checked value. */
const FIELD_PARAMS = [
  'missingProperty',
  'additionalProperty',
  'unevaluatedProperty',
  'propertyName',
] as const;

function fieldPath(error: ErrorObject): string {
  for (const name of FIELD_PARAMS) {
    const field: unknown = error.params[name];
    if (typeof field === 'string') return below(error.instancePath, field);
  }
  return error.instancePath;
}

/**
 * The violations that ajv's errors amount to: one for each kind and path, in the order found, at most `MAX_VIOLATIONS`.
 * Alternatives that all fail are one violation; a failed `if` is none, besides those of its branch.
 */
export function violationsOf(
  errors: readonly ErrorObject[],
  checker: { isTentative(error: ErrorObject): boolean },
): readonly SchemaViolation[] {
  const violations = new Map<string, SchemaViolation>();
  const missed = new MissedTypes(errors);
  for (const error of errors) {
    if (error.keyword === 'if' || checker.isTentative(error)) continue;
    const types = ALTERNATIVES.has(error.keyword) ? missed.of(error) : undefined;
    const kind = types === undefined ? kindOf(error) : 'type';
    const path = cutPath(fieldPath(error));
    const id = `${kind} ${path}`;
    // Wording takes time, and thousands of errors may be the same violation.
    if (violations.has(id)) continue;
    const message = types === undefined ? messageFor(error) : `must be ${typeNames(types)}`;
    violations.set(id, { kind, path, message });
    if (violations.size === MAX_VIOLATIONS) break;
  }
  return [...violations.values()];
}

const ALTERNATIVES = new Set(['anyOf', 'oneOf']);

/** The types that values do not have, indexed once however many alternatives failed. */
class MissedTypes {
  readonly #errors: readonly ErrorObject[];
  #byPath: ReadonlyMap<string, ReadonlyMap<unknown, readonly string[]>> | undefined;

  constructor(errors: readonly ErrorObject[]) {
    this.#errors = errors;
  }

  /** The types of the alternatives, when each of them has failed by its type. */
  of(failed: ErrorObject): readonly string[] | undefined {
    const alternatives: unknown = failed.parentSchema?.[failed.keyword];
    if (!Array.isArray(alternatives) || alternatives.length > MAX_ALTERNATIVES) return undefined;
    this.#byPath ??= this.#index();
    const missed = this.#byPath.get(failed.instancePath);
    const types = alternatives.map((alternative) => missed?.get(alternative));
    return types.every((type) => type !== undefined) ? [...new Set(types.flat())] : undefined;
  }

  #index() {
    const byPath = new Map<string, Map<unknown, readonly string[]>>();
    for (const { keyword, instancePath, parentSchema, params } of this.#errors) {
      if (keyword !== 'type') continue;
      const missed = byPath.get(instancePath) ?? new Map<unknown, readonly string[]>();
      missed.set(parentSchema, [params.type].flat().map(String));
      byPath.set(instancePath, missed);
    }
    return byPath;
  }
}

/** Characters of the expected value that a message may quote. */
const MAX_QUOTED = 120;

/** The kind and message of an error of one keyword. A message states what was expected, never the value found. */
interface Wording {
  readonly kind: ViolationKind;
  readonly message: (params: Readonly<Record<string, unknown>>, error: ErrorObject) => string;
}

function wording(kind: ViolationKind, message: Wording['message'] | string): Wording {
  return { kind, message: typeof message === 'string' ? () => message : message };
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
function typeNames(types: unknown): string {
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

function kindOf(error: ErrorObject): ViolationKind {
  return (WORDINGS.get(error.keyword) ?? OTHER).kind;
}

export function messageFor(error: ErrorObject): string {
  return (WORDINGS.get(error.keyword) ?? OTHER).message(error.params, error);
}
