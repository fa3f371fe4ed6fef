import { payloadOf } from './event-fields.ts';
import type { JsonMark } from './json-view.tsx';

/** A violation as contracts, traces and the live stream report it. */
export interface ShownViolation {
  readonly kind: string;
  /** JSON pointer below `properties` or `traits`. */
  readonly path: string;
  readonly message: string;
  readonly action: string;
}

/** Marks at the fields of an event that violate its contract. */
export function violationMarks(
  event: Readonly<Record<string, unknown>>,
  violations: readonly ShownViolation[],
): readonly JsonMark[] {
  const payload = payloadOf(String(event.type));
  return violations.map(({ path, message, action, kind }) => ({
    path: `/${payload}${path}`,
    message: kind === 'required' ? `${path.slice(path.lastIndexOf('/') + 1)} ${message}` : message,
    severity: action === 'blocked' ? 'error' : 'warning',
  }));
}

/** The violations of an event from the live stream, or from any other external data. */
export function violationsIn(value: unknown): readonly ShownViolation[] {
  return Array.isArray(value) ? value.filter(isViolation) : [];
}

function isViolation(value: unknown): value is ShownViolation {
  return (
    typeof value === 'object' &&
    value !== null &&
    ['kind', 'path', 'message', 'action'].every(
      (name) => typeof (value as Record<string, unknown>)[name] === 'string',
    )
  );
}
