import {
  type Addressed,
  type AddressedEntity,
  type Alert,
  type AlertNotice,
  alertRecipients,
  type BatchStage,
  type Catalog,
  type CatalogEntry,
  type ConfirmationNotice,
  type Destination,
  type DestinationNotice,
  deliveryKey,
  type Fact,
  HEADER,
  iso,
  type LogEntry,
  noticeDelivery,
  noticeRecipients,
  type OutputRecord,
  TOPIC,
} from '@tributary/core';
import { awaitFact, factIn } from '../catalog-position.ts';
import { eventHeaders, timeOf } from '../event-record.ts';
import type { StageParts } from '../stages.ts';

type NoticeDependencies = Pick<StageParts, 'catalog' | 'clock' | 'logger' | 'metrics'>;

/** Changes that are older cause no notice, ms. */
const MAX_AGE_MS = 24 * 60 * 60_000;

/**
 * The stage `notice`: notices about destinations whose health changed, and about alerts that fire or recover. Such a fact of
 * the catalog becomes a mail, a delivery to a destination, or both. A fact that sets an address for notices, which is to be
 * confirmed, becomes a mail with a link to that address. The records are committed with the position behind the
 * fact, so there is one notice for each change, whichever process detected it and whatever crashed.
 */
export function notice(dependencies: NoticeDependencies): BatchStage['process'] {
  return async ({ entries }) => {
    const outputRecords: OutputRecord[] = [];
    for (const entry of entries) outputRecords.push(...(await noticeRecords(dependencies, entry)));
    return outputRecords;
  };
}

interface AddressedNotice {
  readonly notice: DestinationNotice | AlertNotice;
  readonly to: ReturnType<typeof noticeRecipients>;
}

/** The records of a notice; none for a fact that is about something else, was refused, or is too old. */
async function noticeRecords(
  dependencies: NoticeDependencies,
  entry: LogEntry,
): Promise<readonly OutputRecord[]> {
  const fact = factIn(entry);
  const { catalog, clock, metrics, logger } = dependencies;
  const link = linkRequestIn(fact);
  if (link !== undefined) {
    if (clock() - timeOf(link.at) > MAX_AGE_MS) return [];
    await awaitFact(catalog, entry);
    return linkRecords(catalog, link);
  }
  const change = fact?.type === 'destination.turned' || fact?.type === 'alert.turned' ? fact : undefined;
  if (change === undefined || clock() - timeOf(change.at) > MAX_AGE_MS) return [];
  await awaitFact(catalog, entry);
  const addressed =
    change.type === 'alert.turned' ? aboutAlert(catalog, change) : aboutDestination(catalog, change);
  if (addressed === undefined) return [];
  const { notice } = addressed;
  const outputRecords = outputRecordsOf(catalog, addressed, entry);
  const channels = outputRecords.map(({ topic }) => (topic === TOPIC.mail ? 'mail' : 'delivery'));
  for (const channel of channels.length === 0 ? ['none'] : channels)
    if (notice.kind === 'alert')
      metrics.count('tributary_alert_notices_total', { state: notice.turn.state, channel });
    else metrics.count('tributary_destination_health_notices_total', { state: notice.turn.state, channel });
  const about = { [notice.kind]: change.entity, notice: notice.id, state: notice.turn.state, channels };
  const what =
    notice.kind === 'alert' ? 'a notice of an alert' : 'a notice about the health of a destination';
  logger.info(about, channels.length === 0 ? `${what} has no recipient` : `${what} is sent`);
  return outputRecords;
}

function aboutDestination(
  { state }: Catalog,
  fact: Fact & { readonly type: 'destination.turned' },
): AddressedNotice | undefined {
  const destination = state.destination(fact.entity);
  const change = changeOf(state, fact, destination);
  if (destination === undefined || change === undefined) return undefined;
  const { id: _id, paced_until: _pace, ...turn } = fact.data;
  const { id, name, type } = destination;
  const notice: DestinationNotice = { kind: 'destination', ...change, destination: { id, name, type }, turn };
  return { notice, to: noticeRecipients(state, destination) };
}

function aboutAlert(
  { state }: Catalog,
  fact: Fact & { readonly type: 'alert.turned' },
): AddressedNotice | undefined {
  const alert = state.entity('alert', state.workspaceOf(fact.entity) ?? '', fact.entity);
  const change = changeOf(state, fact, alert);
  if (alert === undefined || change === undefined) return undefined;
  const { id: _id, paced_until: _pace, ...turn } = fact.data;
  const { id, name, environment, watch, time_zone } = alert;
  const about = { id, name, environment, watch, time_zone };
  return { notice: { kind: 'alert', ...change, alert: about, turn }, to: alertRecipients(state, alert) };
}

/** What the notices of changes have in common; undefined where the fold refused the change. */
function changeOf(
  state: Catalog['state'],
  { at, data: { id } }: Fact & { readonly type: `${string}.turned` },
  changed: Pick<Destination | Alert, 'workspace_id' | 'condition'> | undefined,
) {
  if (changed?.condition?.recent.includes(id) !== true) return undefined;
  const workspace = state.workspace(changed.workspace_id);
  if (workspace === undefined) return undefined;
  const { id: workspaceId, name, organization_id } = workspace;
  return { id, at, organization_id, workspace: { id: workspaceId, name } };
}

/** The request to confirm an address that a fact has set. */
interface LinkRequest {
  readonly id: string;
  readonly type: AddressedEntity['type'];
  readonly entity: string;
  readonly at: string;
}

function linkRequestIn(fact: CatalogEntry | undefined): LinkRequest | undefined {
  switch (fact?.type) {
    case 'organization.created':
      return linkRequest('organization', fact, fact.data.organization);
    case 'organization.updated':
      return linkRequest('organization', fact, fact.data);
    case 'workspace.updated':
      return linkRequest('workspace', fact, fact.data);
    case 'destination.created':
    case 'destination.updated':
      return linkRequest('destination', fact, fact.data);
    case 'alert.created':
    case 'alert.updated':
      return linkRequest('alert', fact, fact.data);
    default:
      return undefined;
  }
}

function linkRequest(
  type: LinkRequest['type'],
  { entity, at }: Pick<Fact, 'entity' | 'at'>,
  { confirmation }: Addressed,
): LinkRequest | undefined {
  return confirmation == null ? undefined : { id: confirmation, type, entity, at };
}

/** The record of the mail with the link; none where the fold refused the fact, or a later one has changed the address. */
function linkRecords(
  { state, position }: Catalog,
  { id, type, entity: entityId, at }: LinkRequest,
): readonly OutputRecord[] {
  const workspaceId = type === 'workspace' ? entityId : (state.workspaceOf(entityId) ?? '');
  const workspace = state.workspace(workspaceId);
  const organizationId = type === 'organization' ? entityId : workspace?.organization_id;
  const entity =
    type === 'organization'
      ? state.organization(entityId)
      : type === 'workspace'
        ? workspace
        : state.entity(type, workspaceId, entityId);
  if (organizationId === undefined || entity?.confirmation !== id) return [];
  const notice: ConfirmationNotice = {
    kind: 'confirmation',
    id,
    at,
    organization_id: organizationId,
    of: { type, id: entityId, workspace_id: type === 'organization' ? null : workspaceId },
  };
  return [mailRecord(notice, position)];
}

/** It has no address: that is looked up when the mail is sent, so that none is in the log. */
function mailRecord(notice: ConfirmationNotice | AddressedNotice['notice'], position: number): OutputRecord {
  const headers = { [HEADER.catalogPosition]: String(position) };
  return { topic: TOPIC.mail, key: notice.organization_id, value: JSON.stringify(notice), headers };
}

function outputRecordsOf(
  { position }: Catalog,
  { notice, to: { destinationId, email } }: AddressedNotice,
  { timestamp }: LogEntry,
): readonly OutputRecord[] {
  const outputRecords: OutputRecord[] = [];
  if (email !== null) outputRecords.push(mailRecord(notice, position));
  if (destinationId !== null) {
    const delivery = noticeDelivery(notice, destinationId, iso(timestamp));
    outputRecords.push({
      topic: TOPIC.deliveries,
      key: deliveryKey(delivery),
      value: JSON.stringify(delivery),
      headers: eventHeaders(delivery.event, {}, position),
    });
  }
  return outputRecords;
}
