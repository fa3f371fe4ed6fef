import type { JsonObject } from '../event/event.ts';

/** Who made a change: a person, a key, a stage of the pipeline, or the operator at a command line. */
export const AUDIT_ACTOR_TYPES = ['account', 'api_key', 'client_key', 'stage', 'operator'] as const;
export type AuditActorType = (typeof AUDIT_ACTOR_TYPES)[number];

export interface AuditActor {
  readonly type: AuditActorType;
  readonly id: string;
  /** Of an account, as it was then. */
  readonly email: string | null;
  /** Of an API key or a client key. */
  readonly key_prefix: string | null;
}

/** One applied fact, or one operation on a profile, for people: who did what to what, when and from where, with what was there before and after. */
export interface AuditEntry {
  readonly id: string;
  /** The workspace or organization whose log it stands in. */
  readonly scope_id: string;
  /** ISO 8601 */
  readonly at: string;
  /** The verb of the fact, e.g. `updated`. */
  readonly action: string;
  readonly actor: AuditActor;
  readonly entity: { readonly type: string; readonly id: string; readonly name: string | null };
  /**
   * The entity before and after, secrets masked; null where it was not there. Of a profile, whose values stand in no log,
   * `after` describes the operation.
   */
  readonly before: JsonObject | null;
  readonly after: JsonObject | null;
  readonly address: string;
  readonly request_id: string;
}
