import type { OrganizationRole, WorkspaceRole } from '../access/roles.ts';
import type { DestinationCondition } from '../delivery/destination-health.ts';
import type { Environment, EventType, JsonObject } from '../event/event.ts';
import type { ProfileSettings } from '../profiles/identity/profile-settings.ts';

/** Fields the fold keeps on every entity. Times are ISO 8601 UTC. */
interface Kept {
  readonly id: string;
  /** Grows by one with every applied fact about it; the ETag of the resource. */
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface Account extends Kept {
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the issuer, as `normalizeEmail` writes it; null while it has verified none. */
  readonly email: string | null;
  /** When the token that told `email` was issued: an older one, which is still good for a while, does not take it back. */
  readonly email_issued_at?: string;
}

export interface Organization extends Kept {
  readonly name: string;
  /** The integer the profile API speaks of. */
  readonly org_id: number;
  readonly regions: readonly string[];
  readonly notification_email: string | null;
  /** Absent: `NO_PROFILE_SETTINGS`. */
  readonly profile_settings?: ProfileSettings;
  /** The author of the fact that made it; absent where only a rewrite of an older release is left of that fact. */
  readonly created_by?: string;
}

export interface Workspace extends Kept {
  readonly name: string;
  readonly organization_id: string;
  readonly region: string;
  readonly status: 'active' | 'archived';
  /** Of destinations that say nothing themselves. Null or absent: the organization's `notification_email`. */
  readonly alerts?: Alerts | null;
  /** As of an organization. */
  readonly created_by?: string;
}

interface KeyFields extends Kept {
  readonly workspace_id: string;
  readonly name: string;
  /** SHA-256 of the raw key, hex. */
  readonly hash: string;
  readonly key_prefix: string;
  readonly status: 'active' | 'revoked';
  readonly created_by: string;
}

/** What an API key does only where an admin of the organization allowed it when the key was made. */
export const KEY_GRANTS = ['keys', 'members'] as const;
export type KeyGrant = (typeof KEY_GRANTS)[number];

export interface ApiKey extends KeyFields {
  readonly role: WorkspaceRole;
  /** Makes API keys (`keys`), adds, changes and removes members (`members`) of its workspace. Absent: neither. */
  readonly may_manage?: readonly KeyGrant[];
  /** From then on it is refused, as if it were revoked; null: never. */
  readonly expires_at: string | null;
}

export interface WriteKey extends KeyFields {
  readonly environment: Environment;
  /** The received topic its events go to. */
  readonly pubsub_topic: string;
  readonly source_id: string | null;
  /** Its events have the address of who sent them as `context.ip`. Absent: false, as addresses are personal data. */
  readonly collect_ip?: boolean;
}

/** Where events come from, as people call it; write keys may name one. */
export interface CatalogSource extends Kept {
  readonly workspace_id: string;
  readonly name: string;
  /** What kind of thing it is, by the workspace's own word, e.g. `web`. */
  readonly type: string;
  readonly description: string | null;
  readonly status: 'active';
  readonly created_by: string;
}

export const CLIENT_KEY_SCOPES = ['profile.write', 'profile.read', 'profile.delete'] as const;
export type ClientKeyScope = (typeof CLIENT_KEY_SCOPES)[number];

/** Calls the profile API of its organization, within its scopes. */
export interface ClientKey extends Omit<KeyFields, 'workspace_id'> {
  readonly organization_id: string;
  readonly scopes: readonly ClientKeyScope[];
}

export const ENFORCEMENT_MODES = ['allow', 'warn', 'block'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];
export const UNDECLARED_FIELDS = ['allow', 'warn', 'omit', 'block'] as const;
export type UndeclaredFields = (typeof UNDECLARED_FIELDS)[number];

export interface Contract extends Kept {
  readonly workspace_id: string;
  readonly name: string;
  readonly event_type: EventType;
  readonly event_name: string;
  readonly description: string | null;
  readonly schema_definition: JsonObject;
  readonly enforcement_mode: EnforcementMode;
  readonly undeclared_fields: UndeclaredFields;
  readonly status: 'active' | 'archived';
  readonly created_by: string;
}

export interface Transformation extends Kept {
  readonly workspace_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly source_code: string;
  readonly test_input: JsonObject | null;
  readonly test_output: JsonObject | readonly JsonObject[] | null;
  readonly status: 'draft' | 'active' | 'error';
  /** How its test failed, while `draft`. */
  readonly test_error: string | null;
  /** The last message of the failures that made it `error`. */
  readonly last_error: string | null;
  readonly created_by: string;
}

export interface Destination extends Kept {
  readonly workspace_id: string;
  readonly name: string;
  /** The connector's type. */
  readonly type: string;
  /** Secret settings are sealed (`{ "$sealed": "..." }`). */
  readonly settings: JsonObject;
  readonly enabled: boolean;
  /** Calls at a time, and calls that begin in a second, of all processes together; null or absent: the installation's own. */
  readonly max_concurrency?: number | null;
  readonly rate_limit_per_second?: number | null;
  /** Deliveries wait until it is false again. Absent: false. */
  readonly paused?: boolean;
  /** Of a destination that processors paused, until a person changes `paused`. Null or absent: a person paused it. */
  readonly paused_because?: PausedBecause | null;
  /** Events of others do not go there, whatever rules say. Absent: all. */
  readonly environments?: readonly Environment[];
  /** Who is told when it turns bad and well again (`noticeRecipients`). Null or absent: as the workspace says. */
  readonly alerts?: Alerts | null;
  /** How it is, as processors found it. A turn is no change of the destination: its version stays. */
  readonly condition?: DestinationCondition;
  readonly created_by: string;
}

/** `gone`: the destination answered `410 Gone`. */
export interface PausedBecause {
  readonly reason: 'gone';
  /** ISO 8601 */
  readonly at: string;
}

/** Who is told of destinations that turn bad. */
export interface Alerts {
  readonly enabled: boolean;
  /** A destination of the workspace, which notices are delivered to. */
  readonly destination_id: string | null;
  readonly email: string | null;
}

export interface Rule extends Kept {
  readonly workspace_id: string;
  readonly name: string;
  readonly destination_id: string;
  /** Empty = all. */
  readonly event_types: readonly EventType[];
  /** Empty = all. */
  readonly event_names: readonly string[];
  readonly environments: readonly Environment[];
  readonly transformation_id: string | null;
  /** An expression (`rules/filter.ts`) that an event has to pass. Null or absent: every event does. */
  readonly filter?: string | null;
  readonly enabled: boolean;
  readonly created_by: string;
}

/**
 * Accepted events of a time, sent on to rules once more; or rejected ones, evaluated once more by the contracts of when
 * the replay was created. How far it is stands on `replays`.
 */
export interface Replay extends Kept {
  readonly workspace_id: string;
  /** Null: for every enabled rule of the workspace. */
  readonly rule_id: string | null;
  /** Of the times at which the log took the accepted events, ISO 8601; inclusive... */
  readonly since: string;
  /** ...and exclusive. */
  readonly until: string;
  readonly events_per_second: number;
  /** Which events: absent means accepted ones. */
  readonly outcome?: 'accepted' | 'rejected';
  /** Narrows the events down; an absent or empty list, and an absent id, leaves none out. */
  readonly event_types?: readonly EventType[];
  /** Names of track events and pages; others have none. */
  readonly event_names?: readonly string[];
  readonly environments?: readonly Environment[];
  /** The contract that accepted or rejected them. */
  readonly contract_id?: string;
  readonly source_id?: string;
  /** Whether destinations receive new ids instead of those of the first deliveries. Absent on older replays, which all do. */
  readonly new_ids?: boolean;
  /** `active` says nothing of how far it is. */
  readonly status: 'active' | 'cancelled';
  readonly created_by: string;
}

interface MemberFields extends Kept {
  /** Null while it is pending: nobody whose e-mail address this is has signed in. */
  readonly account_id: string | null;
  /** The address it was made for, as `normalizeEmail` writes it; null for who made the organization. */
  readonly email: string | null;
  readonly created_by: string;
}

export interface OrganizationMember extends MemberFields {
  readonly organization_id: string;
  readonly role: OrganizationRole;
}

export interface WorkspaceMember extends MemberFields {
  readonly workspace_id: string;
  readonly role: WorkspaceRole;
}

/** Who owns a new organization. */
export interface Membership {
  readonly account_id: string;
  readonly organization_id: string;
  readonly role: OrganizationRole;
}

/** What a fact carries of a new entity: everything the fold does not set itself. */
export type Draft<Entity extends Kept> = Omit<Entity, 'version' | 'created_at' | 'updated_at'>;

/** What a fact carries of a change: the fields that change. */
export type Change<Entity extends Kept> = Partial<Omit<Entity, keyof Kept | 'workspace_id'>>;

/** What a fact carries of a new member. Whose account it is, if anybody's yet, the fold finds out. */
export type NewMember<Entity extends MemberFields> = Omit<Draft<Entity>, 'account_id' | 'email'> & {
  readonly email: string;
};
