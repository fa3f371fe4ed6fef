import { isSealed, type JsonObject } from '@tributary/core';

/** What answers show instead of a secret. */
export const MASK = '********';

/** Settings without what says nothing: null is the same as absent, and the mask stands for what is stored. */
export function statedSettings(settings: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).filter(
      ([name, value]) => value !== null && !(secrets.includes(name) && value === MASK),
    ),
  );
}

/** The stored secrets, sealed, that a change leaves as they are: those it masks or leaves out. */
export function keptSecrets(stored: JsonObject, stated: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(stored).filter(([name]) => secrets.includes(name) && !Object.hasOwn(stated, name)),
  );
}

/** Settings as answers show them. Whatever is sealed is masked, also when its connector no longer says so. */
export function maskSecrets(settings: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      name,
      secrets.includes(name) || isSealed(value) ? MASK : value,
    ]),
  );
}
