import type { AlertChange } from '../alerts/alert.ts';
import type { Catalog, CatalogView } from '../catalog/catalog.ts';
import type { Addressed, Alert, Alerts, Destination } from '../catalog/entities.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { HealthChange } from '../delivery/destination-health.ts';
import type { JsonObject } from '../event/event.ts';
import type { EventLog } from '../log/event-log.ts';
import { HEADER, TOPIC } from '../log/topics.ts';
import { nameId } from '../primitives/ids.ts';
import { type AddressedEntity, type ConfirmedView, isConfirmedAddress } from './addresses.ts';

/** What the notices of changes have in common. They hold no settings, event data or addresses. */
interface ChangeNotice {
  /** The id of the change: a repeated notice has the same id. */
  readonly id: string;
  /** When the change was detected, ISO 8601. */
  readonly at: string;
  readonly organization_id: string;
  readonly workspace: { readonly id: string; readonly name: string };
}

/** The notice of one health change of a destination. */
export interface DestinationNotice extends ChangeNotice {
  readonly kind: 'destination';
  readonly destination: Pick<Destination, 'id' | 'name' | 'type'>;
  /** The change. Stored records have it under this name. */
  readonly turn: Omit<HealthChange, 'id' | 'paced_until'>;
}

export interface AlertNotice extends ChangeNotice {
  readonly kind: 'alert';
  readonly alert: Pick<Alert, 'id' | 'name' | 'environment' | 'watch' | 'time_zone'>;
  /** The change. Stored records have it under this name. */
  readonly turn: Omit<AlertChange, 'id' | 'paced_until'>;
}

/** The recipients of notices; both null: none. */
interface NoticeRecipients {
  /** The destination that notices are delivered to. */
  readonly destinationId: string | null;
  readonly email: string | null;
}

const NONE: NoticeRecipients = { destinationId: null, email: null };

/**
 * The recipients that the destination's `alerts` name, else those of its workspace. Where these name neither an address
 * nor another enabled destination: the `notification_email` of the organization. An address counts once it is confirmed.
 * None where alerts are off, or the workspace is archived.
 */
export function noticeRecipients(
  state: RecipientsView,
  {
    id,
    workspace_id,
    alerts,
    confirmation,
  }: Pick<Destination, 'id' | 'workspace_id' | 'alerts' | 'confirmation'>,
): NoticeRecipients {
  const named = alerts == null ? ofWorkspace(state, workspace_id) : { alerts, confirmation };
  return recipientsOf(state, workspace_id, named, id);
}

/** The recipients that the alert names, else those of its workspace, in the same way. */
export function alertRecipients(
  state: RecipientsView,
  {
    workspace_id,
    destination_id,
    email,
    confirmation,
    watch,
  }: Pick<Alert, 'workspace_id' | 'destination_id' | 'email' | 'confirmation' | 'watch'>,
): NoticeRecipients {
  const hasOwn = destination_id !== null || email !== null;
  const own = { alerts: { enabled: true, destination_id, email }, confirmation };
  const named = hasOwn ? own : ofWorkspace(state, workspace_id);
  return recipientsOf(state, workspace_id, named, watchedDestination(watch));
}

/** The `notification_email` of the organization, once it is confirmed. */
export function organizationRecipient(state: RecipientsView, organizationId: string): string | null {
  const organization = state.organization(organizationId);
  return organization === undefined
    ? null
    : confirmed(state, organization.notification_email, organization, { organizationId });
}

/** The destination that an alert is about, which cannot deliver its notices; null where it is about none or all. */
export function watchedDestination(watch: Alert['watch']): string | null {
  return 'destination_id' in watch ? watch.destination_id : null;
}

type RecipientsView = Pick<CatalogView, 'entity' | 'workspace'> & ConfirmedView;

/** The recipients that an entity names. */
interface NamedRecipients extends Addressed {
  readonly alerts: Alerts | null | undefined;
}

function ofWorkspace(state: RecipientsView, workspaceId: string): NamedRecipients {
  const workspace = state.workspace(workspaceId);
  return { alerts: workspace?.alerts, confirmation: workspace?.confirmation ?? null };
}

function confirmed(
  state: RecipientsView,
  email: string | null | undefined,
  { confirmation = null }: Addressed,
  of: { readonly organizationId: string; readonly workspaceId?: string },
): string | null {
  return email != null && isConfirmedAddress(state, { ...of, email, confirmation }) ? email : null;
}

/** `about`: the id of a destination that notices cannot be delivered to, as they are about it. */
function recipientsOf(
  state: RecipientsView,
  workspaceId: string,
  named: NamedRecipients,
  about: string | null,
): NoticeRecipients {
  const workspace = state.workspace(workspaceId);
  const { alerts } = named;
  if (workspace?.status !== 'active' || alerts?.enabled === false) return NONE;
  const channel = state.entity('destination', workspaceId, alerts?.destination_id ?? '');
  const isOpen = channel?.enabled === true && channel.id !== about && channel.warehouse !== true;
  const destinationId = isOpen ? channel.id : null;
  const organizationId = workspace.organization_id;
  const email = confirmed(state, alerts?.email, named, { organizationId, workspaceId });
  if (destinationId !== null || email !== null) return { destinationId, email };
  return { destinationId, email: organizationRecipient(state, organizationId) };
}

/** Names of the events that carry notices. */
const NOTICE_EVENTS = {
  bad: 'Destination Bad',
  well: 'Destination Well',
  firing: 'Alert Firing',
  ok: 'Alert Recovered',
} as const;

/**
 * A notice as a delivery to a destination of the workspace: a `track` event about the changed destination or alert.
 * `rule_id` is the id of that one too, because no rule created it. `createdAt` is ISO 8601, the same on every replay.
 */
export function noticeDelivery(
  notice: DestinationNotice | AlertNotice,
  destinationId: string,
  createdAt: string,
): Delivery {
  const { kind, id, at, workspace, turn } = notice;
  const subject = kind === 'alert' ? notice.alert : notice.destination;
  return {
    id: nameId(id, destinationId),
    workspace_id: workspace.id,
    environment: 'production',
    destination_id: destinationId,
    rule_id: subject.id,
    message_id: id,
    index: 0,
    created_at: createdAt,
    attempts: [],
    redrives: 0,
    event: {
      message_id: id,
      type: 'track',
      event: NOTICE_EVENTS[turn.state],
      anonymous_id: subject.id,
      properties: { ...turn, workspace, [kind]: subject } as unknown as JsonObject,
      timestamp: at,
      received_at: at,
      environment: 'production',
      workspace_id: workspace.id,
    },
  };
}

/** Whether a delivery is a notice rather than an event of a producer. */
export function isNotice({ rule_id, event }: Pick<Delivery, 'rule_id' | 'event'>): boolean {
  return (
    event.anonymous_id === rule_id && Object.values<string | undefined>(NOTICE_EVENTS).includes(event.event)
  );
}

/**
 * The content of the mail that was requested with a deletion of profiles: counts, and no identities: deleted data
 * must not live on in a mailbox, or on its way there.
 */
export interface DeletionNotice {
  /** A UUID, the id of the deletion request. A repeated notice with the same id is the same mail. */
  readonly id: string;
  /** The mail goes to this organization's `notification_email` at the time of sending. */
  readonly organization_id: string;
  readonly regions: readonly string[];
  /** When the profiles were deleted, ISO 8601. */
  readonly at: string;
  /** The caller: an account id, or `key:<id>` of a client key. */
  readonly by: string;
  /**
   * Numbers of different identities or ucids in the request, of deleted profiles, and of identities or ucids without
   * a profile.
   */
  readonly counts: {
    readonly requested: number;
    readonly deleted: number;
    readonly not_found: number;
  };
}

/**
 * The request for a mail with the link that confirms an address. It holds no address: that of the entity is looked up when
 * the mail is sent.
 */
export interface ConfirmationNotice {
  readonly kind: 'confirmation';
  /** A UUID. A repeated notice with the same id is the same mail. */
  readonly id: string;
  /** When the address was set, or the link requested again, ISO 8601. */
  readonly at: string;
  readonly organization_id: string;
  /** Where the address is set. */
  readonly of: AddressedEntity;
}

/** The address of a notice's entity that is still to be confirmed; undefined without one. */
export function unconfirmedAddress(
  state: RecipientsView,
  { organization_id: organizationId, of }: Pick<ConfirmationNotice, 'organization_id' | 'of'>,
): string | undefined {
  const set = addressSetOn(state, organizationId, of);
  const email = set?.email;
  if (set === undefined || email == null) return undefined;
  const address = {
    email,
    organizationId,
    ...(of.workspace_id !== null && { workspaceId: of.workspace_id }),
  };
  return isConfirmedAddress(state, { ...address, confirmation: set.confirmation ?? null })
    ? undefined
    : email;
}

interface SetAddress extends Addressed {
  readonly email: string | null | undefined;
}

function addressSetOn(
  state: RecipientsView,
  organizationId: string,
  { type, id, workspace_id }: AddressedEntity,
): SetAddress | undefined {
  if (type === 'organization') {
    const organization = state.organization(organizationId);
    return organization && { ...organization, email: organization.notification_email };
  }
  const workspace = state.workspace(workspace_id ?? '');
  if (workspace?.status !== 'active' || workspace.organization_id !== organizationId) return undefined;
  if (type === 'workspace') return { ...workspace, email: workspace.alerts?.email };
  if (type === 'alert') return state.entity('alert', workspace.id, id);
  const destination = state.entity('destination', workspace.id, id);
  return destination && { ...destination, email: destination.alerts?.email };
}

/**
 * Resolves once the notice is durable; it is then sent, however long the mail server is down.
 * Errors: `Unavailable` when that is not known; repeating the call with the same notice sends one mail.
 */
export type RequestMail = (notice: DeletionNotice | ConfirmationNotice) => Promise<void>;

/** Queues notices on the topic `mail`; the `mail` stage sends each once. */
export function queueMails(log: Pick<EventLog, 'append'>, catalog: Pick<Catalog, 'position'>): RequestMail {
  return async (notice) => {
    const headers = { [HEADER.catalogPosition]: String(catalog.position) };
    await log.append(TOPIC.mail, [{ key: notice.organization_id, value: JSON.stringify(notice), headers }]);
  };
}
