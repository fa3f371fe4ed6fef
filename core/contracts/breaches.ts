import type { ErrorObject } from 'ajv';
import { kindOf, messageFor, typeNames } from './breach-message.ts';
import type { Checker } from './compile.ts';
import { below } from './pointer.ts';
import { type Breach, MAX_VIOLATIONS } from './violation.ts';

/** A longer path is cut: a field's name may be as long as the event. */
export const MAX_PATH_LENGTH = 1_000;

/** Alternatives that are compared by type to word the failure of all of them. */
const MAX_ALTERNATIVES = 20;

export function cutPath(path: string): string {
  return path.length <= MAX_PATH_LENGTH ? path : `${path.slice(0, MAX_PATH_LENGTH)}…`;
}

/** The members of an error's `params` that name the field concerned, which is not the value that was judged. */
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
 * What the compiler found, in our words: one breach for each kind and path, in the order found, at most
 * `MAX_VIOLATIONS`. Of alternatives that all failed one breach tells, not one for each; a failed `if` tells nothing
 * beside what its branch found.
 */
export function breachesOf(
  errors: readonly ErrorObject[],
  checker: Pick<Checker, 'isTentative'>,
): readonly Breach[] {
  const breaches = new Map<string, Breach>();
  const missed = new MissedTypes(errors);
  for (const error of errors) {
    if (error.keyword === 'if' || checker.isTentative(error)) continue;
    const types = ALTERNATIVES.has(error.keyword) ? missed.of(error) : undefined;
    const kind = types === undefined ? kindOf(error) : 'type';
    const path = cutPath(fieldPath(error));
    const id = `${kind} ${path}`;
    // To word one takes its time, and thousands may say the same.
    if (breaches.has(id)) continue;
    const message = types === undefined ? messageFor(error) : `must be ${typeNames(types)}`;
    breaches.set(id, { kind, path, message });
    if (breaches.size === MAX_VIOLATIONS) break;
  }
  return [...breaches.values()];
}

const ALTERNATIVES = new Set(['anyOf', 'oneOf']);

/** The types that values do not have, looked through once however many alternatives failed. */
class MissedTypes {
  readonly #errors: readonly ErrorObject[];
  #byPath: ReadonlyMap<string, ReadonlyMap<unknown, readonly string[]>> | undefined;

  constructor(errors: readonly ErrorObject[]) {
    this.#errors = errors;
  }

  /** The types that the alternatives ask for, when the value has none of them. */
  of(failed: ErrorObject): readonly string[] | undefined {
    const alternatives: unknown = failed.parentSchema?.[failed.keyword];
    if (!Array.isArray(alternatives) || alternatives.length > MAX_ALTERNATIVES) return undefined;
    this.#byPath ??= this.#read();
    const missed = this.#byPath.get(failed.instancePath);
    const types = alternatives.map((alternative) => missed?.get(alternative));
    return types.every((type) => type !== undefined) ? [...new Set(types.flat())] : undefined;
  }

  #read() {
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
