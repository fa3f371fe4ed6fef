import type { CanonicalEvent, Environment, EventType } from '../event/event.ts';
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

/** A violation as the schema gives it, before it is recorded. `path` is a JSON pointer below `properties` or `traits`. */
export interface SchemaViolation {
  readonly kind: ViolationKind;
  readonly path: string;
  readonly message: string;
}

/** A recorded violation: the value of an entry on `violations`. */
export interface Violation extends SchemaViolation {
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

/** Violations found in one event at most; fewer are recorded. */
export const MAX_VIOLATIONS = 100;

/** A violation of an event as it is recorded, but for its id. */
export function violationOf(
  { workspace_id, environment, message_id, type: event_type, received_at }: CanonicalEvent,
  contract: { readonly id: string; readonly version: number },
  event_name: string,
  { kind, path, message, action }: Pick<Violation, 'kind' | 'path' | 'message' | 'action'>,
): Omit<Violation, 'id'> {
  const of = { contract_id: contract.id, contract_version: contract.version, workspace_id, environment };
  return { ...of, message_id, event_type, event_name, kind, path, message, action, received_at };
}

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

/** Value of an entry on `events.rejected`: the event as it was received, and why its contract blocked it. */
export interface RejectedEvent {
  readonly event: CanonicalEvent;
  readonly reason: 'event blocked';
  /** The recorded violations; at least one is `blocked`. */
  readonly violations: readonly Violation[];
}
