import { hash } from 'node:crypto';
import type { Json, JsonObject } from '../event/event.ts';
import { isSealed } from '../secrets/seal.ts';

/** What stands where a secret is. */
export const AUDIT_MASK = '***';

/** A value with more JSON than this is told by its size and digest, bytes: a page of the log must stay of a size. */
export const MAX_AUDITED_BYTES = 16 * 1024;

/** Settings with such a name are masked even where nobody sealed them. */
const SECRET_NAME = /secret|password|passwd|token|authorization|credential|(api|access|private)[_-]?key/i;

/** An entity as the audit log may show it: no hash, nothing sealed, nothing that is called a secret, nothing huge. */
export function maskedEntity(entity: object): JsonObject {
  const plain = JSON.parse(JSON.stringify(entity)) as JsonObject;
  return Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, shown(name, value)]));
}

function shown(name: string, value: Json): Json {
  if (name === 'hash' || isSealed(value)) return AUDIT_MASK;
  return bounded(name === 'settings' ? withoutSecrets(value) : withoutSealed(value));
}

function withoutSealed(value: Json): Json {
  return deep(value, (_name, inner) => isSealed(inner));
}

function withoutSecrets(value: Json): Json {
  return deep(value, (name, inner) => isSealed(inner) || SECRET_NAME.test(name));
}

function deep(value: Json, isSecret: (name: string, value: Json) => boolean): Json {
  if (isList(value)) return value.map((one) => (isSealed(one) ? AUDIT_MASK : deep(one, isSecret)));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      isSecret(name, inner) ? AUDIT_MASK : deep(inner, isSecret),
    ]),
  );
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function bounded(value: Json): Json {
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  return bytes <= MAX_AUDITED_BYTES ? value : { $omitted: { bytes, sha256: hash('sha256', text) } };
}
