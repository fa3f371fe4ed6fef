import { v5, validate, version } from 'uuid';
import { createUuidV7 } from './uuid-v7.ts';

/** A fresh UUIDv7: sortable by time, monotonic within this process. */
export const newId: () => string = createUuidV7(Date.now);

/** The namespace of every name-based id of Tributary. */
const NAMESPACE = '5f1c1b0e-8a57-5c0e-9d1e-7a2f6d1b4c3d';

/** A name-based UUID (version 5) of the parts; the same parts give the same id everywhere and always. */
export function nameId(...parts: readonly (string | number)[]): string {
  return v5(parts.map((part) => String(part)).join('\u0000'), NAMESPACE);
}

/** Of the n-th output of a rule for an event, and of the event itself where nothing transforms it (0). */
export function deliveryId(
  ruleId: string,
  event: { readonly environment: string; readonly message_id: string },
  index: number,
  replayId?: string,
): string {
  const of = `${event.environment}:${event.message_id}:${index}`;
  return replayId === undefined ? nameId(ruleId, of) : nameId(ruleId, of, replayId);
}

/** When an id of version 7 was made, epoch ms by the clock of who made it; undefined for every other text. */
export function timeOfId(id: string): number | undefined {
  if (!validate(id) || version(id) !== 7) return undefined;
  return Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
}

export function isUuid(value: string): boolean {
  return validate(value);
}
