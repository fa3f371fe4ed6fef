import type { ClientKeyScope, OrganizationRole, WorkspaceRole } from '../access/roles.ts';
import type { AlertCondition, AlertRule } from '../alerts/alert.ts';
import { type Connection, NOT_CONNECTED } from '../delivery/connection.ts';
import type { DestinationCondition } from '../delivery/destination-health.ts';
import type { Environment, EventType, JsonObject } from '../event/event.ts';
import type { ProfileSettings } from '../profiles/identity/profile-settings.ts';
import type { Sealed } from '../security/secrets.ts';
import type { SchemaColumn } from '../warehouse/layout.ts';

/** Fields that the fold sets on every entity. Times are ISO 8601 UTC. */
interface StoredEntity {
  readonly id: string;
  /** Grows by one with every applied fact about the entity; the ETag of the resource. */
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface Account extends StoredEntity {
  readonly issuer: string;
  readonly subject: string;
  /** The address that the issuer verified, normalized by `normalizeEmail`; null without one. */
  readonly email: string | null;
  /**
   * When the token with this `email` was issued. An older token that is still valid does not overwrite the address.
   */
  readonly email_issued_at?: string;
}

/**
 * An entity with a mail address for notices. `confirmation`: the id of the request to confirm that address by a link, as
 * long as no link has confirmed it; null or absent: a link had when it was set, or it was set by 0.2.0, which asked for no
 * confirmation. Read it by `isConfirmedAddress`.
 */
export interface Addressed {
  readonly confirmation?: string | null | undefined;
}

export interface Organization extends StoredEntity, Addressed {
  readonly name: string;
  /** The organization's number in the profile API. */
  readonly org_id: number;
  readonly regions: readonly string[];
  readonly notification_email: string | null;
  /** Addresses that a link confirmed, for every entity of the organization. */
  readonly confirmed_addresses?: readonly string[];
  /** Absent: `NO_PROFILE_SETTINGS`. */
  readonly profile_settings?: ProfileSettings;
  /**
   * The author of the fact that created it; absent where that fact was replaced by a catalog rewrite of a release
   * that did not keep it.
   */
  readonly created_by?: string;
}

export interface Workspace extends StoredEntity, Addressed {
  readonly name: string;
  readonly organization_id: string;
  readonly region: string;
  readonly status: 'active' | 'archived';
  /**
   * Alert settings for destinations without their own. Null or absent: mail goes to the organization's
   * `notification_email`.
   */
  readonly alerts?: Alerts | null;
  /** Budgets that an operator gave it in place of the installation's. */
  readonly storage?: StorageException;
  /** See `Organization.created_by`. */
  readonly created_by?: string;
}

/** Bytes; null: unlimited. Absent: as the installation. */
export interface StorageException {
  readonly bytes_per_hour?: number | null;
  readonly bytes_held?: number | null;
}

/** An entity of a workspace that an account, or a key for its account, has created. */
interface NamedEntity extends StoredEntity {
  readonly workspace_id: string;
  readonly name: string;
  readonly created_by: string;
}

interface KeyFields extends NamedEntity {
  /** SHA-256 of the raw key, hex. */
  readonly hash: string;
  readonly key_prefix: string;
  readonly status: 'active' | 'revoked';
}

/** Permissions of an API key that an admin of the organization must grant when the key is created. */
export const KEY_GRANTS = ['keys', 'members'] as const;
export type KeyGrant = (typeof KEY_GRANTS)[number];

export interface ApiKey extends KeyFields {
  readonly role: WorkspaceRole;
  /**
   * `keys`: it may create API keys; `members`: it may add, change and remove members of its workspace. Absent:
   * neither.
   */
  readonly may_manage?: readonly KeyGrant[];
  /** The key is refused from this time on, like a revoked one; null: it never expires. */
  readonly expires_at: string | null;
}

export interface WriteKey extends KeyFields {
  readonly environment: Environment;
  readonly pubsub_topic: string;
  readonly source_id: string | null;
  /** Events get the sender's IP address as `context.ip`. Absent: false, because addresses are personal data. */
  readonly collect_ip?: boolean;
  /** Only webhooks of its source are accepted with it. Absent: false. */
  readonly webhooks_only?: boolean;
}

/** A named origin of events, which write keys may refer to. */
export interface CatalogSource extends NamedEntity {
  /** A free-text kind, chosen by the workspace, e.g. `web`. */
  readonly type: string;
  readonly description: string | null;
  readonly status: 'active';
  /** Null or absent: it receives no webhooks. */
  readonly webhook?: SourceWebhook | null;
}

export const WEBHOOK_KINDS = ['github', 'stripe', 'shopify', 'standard', 'hmac', 'none'] as const;
export type WebhookKind = (typeof WEBHOOK_KINDS)[number];

export const HMAC_ALGORITHMS = ['sha1', 'sha256', 'sha512'] as const;
export type HmacAlgorithm = (typeof HMAC_ALGORITHMS)[number];
export const HMAC_ENCODINGS = ['hex', 'base64'] as const;
export type HmacEncoding = (typeof HMAC_ENCODINGS)[number];

/**
 * How webhooks that another service sends to a source are verified and become events. A place is a JSON pointer into the
 * payload, or the name of a header; absent, or where nothing is there: that of the kind.
 */
export interface SourceWebhook {
  readonly kind: WebhookKind;
  /** A request signed with any of them is accepted. Empty for `none` alone. */
  readonly secrets: readonly Sealed[];
  /** How a request of the kind `hmac` is signed; absent for all others. */
  readonly hmac?: HmacSignature;
  readonly message_id?: string;
  readonly event?: string;
  readonly user_id?: string;
  readonly anonymous_id?: string;
  readonly timestamp?: string;
}

/** The header has the prefix, and the encoded HMAC of the body behind it. */
export interface HmacSignature {
  readonly header: string;
  readonly algorithm: HmacAlgorithm;
  readonly encoding: HmacEncoding;
  readonly prefix: string;
}

/** A credential for the profile API of one organization, limited to its scopes. */
export interface ClientKey extends Omit<KeyFields, 'workspace_id'> {
  readonly organization_id: string;
  readonly scopes: readonly ClientKeyScope[];
}

export const ENFORCEMENT_MODES = ['allow', 'warn', 'block'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];
export const UNDECLARED_FIELDS = ['allow', 'warn', 'omit', 'block'] as const;
export type UndeclaredFields = (typeof UNDECLARED_FIELDS)[number];

export interface Contract extends NamedEntity {
  readonly event_type: EventType;
  readonly event_name: string;
  readonly description: string | null;
  readonly schema_definition: JsonObject;
  readonly enforcement_mode: EnforcementMode;
  readonly undeclared_fields: UndeclaredFields;
  readonly status: 'active' | 'archived';
}

export interface Transformation extends NamedEntity {
  readonly description: string | null;
  readonly source_code: string;
  readonly test_input: JsonObject | null;
  readonly test_output: JsonObject | readonly JsonObject[] | null;
  readonly status: 'draft' | 'active' | 'error';
  /** The error of its test, while `draft`. */
  readonly test_error: string | null;
  /** The message of the last failure that set the status to `error`. */
  readonly last_error: string | null;
}

export interface Destination extends NamedEntity, Addressed {
  readonly type: string;
  /** Secret settings are sealed (`{ "$sealed": "..." }`). */
  readonly settings: JsonObject;
  readonly enabled: boolean;
  /** Its loader reads the log: it gets no deliveries. */
  readonly warehouse?: true;
  /**
   * Concurrent requests, and requests started per second, over all processes; null or absent: the installation's
   * defaults.
   */
  readonly max_concurrency?: number | null;
  readonly rate_limit_per_second?: number | null;
  /** While true, deliveries are held back. Absent: false. */
  readonly paused?: boolean;
  /**
   * Why the destination was paused by itself; cleared when it is resumed. Null or absent: a user paused it.
   */
  readonly paused_because?: PausedBecause | null;
  /** Only events of these environments are delivered, whatever the rules match. Absent: of all. */
  readonly environments?: readonly Environment[];
  /** Recipients of health alerts (`noticeRecipients`). Null or absent: those of the workspace. */
  readonly alerts?: Alerts | null;
  /** The health that processors reported last. A health change does not change the destination's version. */
  readonly condition?: DestinationCondition;
  /** With an account at its service, for types that need one. Absent: it never was connected. */
  readonly connection?: Connection;
}

export const PAUSED_BECAUSE = ['gone', ...NOT_CONNECTED] as const;

/**
 * `gone`: the destination answered `410 Gone`; `not_connected`: it has no account at its service; `access_refused`: its service
 * does not accept the tokens of the account any more.
 */
interface PausedBecause {
  readonly reason: (typeof PAUSED_BECAUSE)[number];
  /** ISO 8601 */
  readonly at: string;
}

export interface Alerts {
  readonly enabled: boolean;
  /** The destination of the workspace that notices are delivered to. */
  readonly destination_id: string | null;
  readonly email: string | null;
}

export interface Rule extends NamedEntity {
  readonly destination_id: string;
  /** Empty = all. */
  readonly event_types: readonly EventType[];
  /** Empty = all. */
  readonly event_names: readonly string[];
  readonly environments: readonly Environment[];
  readonly transformation_id: string | null;
  /** A CEL expression (`core/rules/filter.ts`) that must hold for an event. Null or absent: no filter. */
  readonly filter?: string | null;
  readonly enabled: boolean;
}

/**
 * Sends accepted events of a time range to rules once more, or evaluates rejected ones once more with the contracts
 * as of the replay's creation. Its progress is on the topic `replays`.
 */
export interface Replay extends StoredEntity {
  readonly workspace_id: string;
  /** Null: every enabled rule of the workspace. */
  readonly rule_id: string | null;
  /** Start of the range, inclusive: when the log took the event, ISO 8601. */
  readonly since: string;
  /** End of the range, exclusive. */
  readonly until: string;
  readonly events_per_second: number;
  /** Which events are replayed. Absent: accepted ones. */
  readonly outcome?: 'accepted' | 'rejected';
  /** Optional filters: an absent or empty list, and an absent id, match all events. */
  readonly event_types?: readonly EventType[];
  /** Names of track events, pages and screens; other types have no name. */
  readonly event_names?: readonly string[];
  readonly environments?: readonly Environment[];
  readonly contract_id?: string;
  readonly source_id?: string;
  /**
   * True: destinations receive new delivery ids instead of those of the first deliveries. Absent on older replays:
   * true.
   */
  readonly new_ids?: boolean;
  /** `active` does not tell the progress, see above. */
  readonly status: 'active' | 'cancelled';
  readonly created_by: string;
}

/** Tells when numbers of a workspace are not as they should be (docs/reference/alert-kinds.md). */
export interface Alert extends NamedEntity, AlertRule, Addressed {
  readonly enabled: boolean;
  /** The destination that notices are delivered to. Both recipients null: those of the workspace. */
  readonly destination_id: string | null;
  readonly email: string | null;
  /** The state that processors reported last. A change of it does not change the alert's version. */
  readonly condition?: AlertCondition;
}

/** A table of a warehouse as its loader wants it; removed with its destination. The id is `warehouseTableId`. */
export interface WarehouseTable extends StoredEntity {
  readonly workspace_id: string;
  readonly destination_id: string;
  readonly name: string;
  /** By name, in the order in which they were added. */
  readonly columns: Readonly<Record<string, SchemaColumn>>;
}

interface MemberFields extends StoredEntity {
  /** Null while pending: no account with this e-mail address has signed in yet. */
  readonly account_id: string | null;
  /** The invited address, normalized by `normalizeEmail`; null for the creator of the organization. */
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

export interface Membership {
  readonly account_id: string;
  readonly organization_id: string;
  readonly role: OrganizationRole;
}

/** The fields of a new entity in a fact: all that the fold does not set. */
export type Draft<Entity extends StoredEntity> = Omit<Entity, 'version' | 'created_at' | 'updated_at'>;

/** The changed fields in a fact. */
export type Change<Entity extends StoredEntity> = Partial<Omit<Entity, keyof StoredEntity | 'workspace_id'>>;

/** The fields of a new member in a fact. The fold finds the account by the address, if there is one. */
export type NewMember<Entity extends MemberFields> = Omit<Draft<Entity>, 'account_id' | 'email'> & {
  readonly email: string;
};
