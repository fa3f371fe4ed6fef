import type { Environment, EventType } from '../event/event.ts';
import { nameId } from '../primitives/ids.ts';

export const VIOLATION_KINDS = [
  'required',
  'type',
  'enum',
  'format',
  'pattern',
  'bounds',
  'undeclared',
  'schema',
] as const;
/** `bounds` = minimum, maxLength, uniqueItems and their like; `schema` = any other keyword. */
export type ViolationKind = (typeof VIOLATION_KINDS)[number];

/** One breach found in an event, before it is recorded. `path` is a JSON pointer below `properties` or `traits`. */
export interface Breach {
  readonly kind: ViolationKind;
  readonly path: string;
  readonly message: string;
}

/** One recorded breach: the value of an entry on `violations`. */
export interface Violation extends Breach {
  readonly id: string;
  readonly workspace_id: string;
  readonly environment: Environment;
  readonly contract_id: string;
  readonly contract_version: number;
  readonly message_id: string;
  readonly event_type: EventType;
  readonly event_name: string;
  readonly action: 'warned' | 'omitted' | 'blocked';
  /** ISO 8601, of the event. */
  readonly received_at: string;
}

/** Recorded of one event at most. */
export const MAX_VIOLATIONS = 100;

export function violationId(violation: Omit<Violation, 'id'>): string {
  return nameId(
    violation.environment,
    violation.message_id,
    violation.contract_id,
    violation.contract_version,
    violation.kind,
    violation.path,
  );
}
