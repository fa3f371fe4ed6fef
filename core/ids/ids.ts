import { v5, validate } from 'uuid';
import { createUuidV7 } from './uuid-v7.ts';

/** A fresh UUIDv7: sortable by time, monotonic within this process. */
export const newId: () => string = createUuidV7(Date.now);

/** The namespace of every name-based id of Tributary. */
const NAMESPACE = '5f1c1b0e-8a57-5c0e-9d1e-7a2f6d1b4c3d';

/** A name-based UUID (version 5) of the parts; the same parts give the same id everywhere and always. */
export function nameId(...parts: readonly (string | number)[]): string {
  return v5(parts.map((part) => String(part)).join('\u0000'), NAMESPACE);
}

export function isUuid(value: string): boolean {
  return validate(value);
}
