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
  for (const error of errors) {
    if (error.keyword === 'if' || checker.isTentative(error)) continue;
    const breach = worded(error, errors);
    const id = `${breach.kind} ${breach.path}`;
    if (!breaches.has(id)) breaches.set(id, breach);
    if (breaches.size === MAX_VIOLATIONS) break;
  }
  return [...breaches.values()];
}

function worded(error: ErrorObject, errors: readonly ErrorObject[]): Breach {
  const path = cutPath(fieldPath(error));
  const types =
    error.keyword === 'anyOf' || error.keyword === 'oneOf' ? missedTypes(error, errors) : undefined;
  if (types !== undefined) return { kind: 'type', path, message: `must be ${typeNames(types)}` };
  return { kind: kindOf(error), path, message: messageFor(error) };
}

/** The types that the alternatives ask for, when the value has none of them. */
function missedTypes(failed: ErrorObject, errors: readonly ErrorObject[]): readonly string[] | undefined {
  const alternatives: unknown = failed.parentSchema?.[failed.keyword];
  if (!Array.isArray(alternatives) || alternatives.length > MAX_ALTERNATIVES) return undefined;
  const missed = new Map<unknown, readonly string[]>();
  for (const error of errors) {
    if (error.keyword === 'type' && error.instancePath === failed.instancePath) {
      missed.set(error.parentSchema, [error.params.type].flat().map(String));
    }
  }
  const types = alternatives.map((alternative) => missed.get(alternative));
  return types.every((type) => type !== undefined) ? [...new Set(types.flat())] : undefined;
}
