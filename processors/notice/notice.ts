import {
  type BatchStage,
  type Catalog,
  type Clock,
  type Destination,
  type DestinationNotice,
  deliveryKey,
  HEADER,
  iso,
  type LogEntry,
  type Logger,
  type Metrics,
  noticeDelivery,
  noticeRecipients,
  type OutputRecord,
  TOPIC,
} from '@tributary/core';
import { awaitFact, factIn } from '../catalog-position.ts';
import { eventHeaders, timeOf } from '../event-record.ts';

export interface NoticeDependencies {
  readonly catalog: Catalog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
}

/** Changes that are older cause no alert, ms. */
const MAX_AGE_MS = 24 * 60 * 60_000;

/**
 * The stage `notice`: alerts about destinations whose health changed. Such a fact of the catalog becomes a mail, a delivery
 * to another destination, or both. The records are committed with the position behind the fact, so there is one alert for
 * each change, whichever process detected it and whatever crashed.
 */
export function notice(dependencies: NoticeDependencies): BatchStage['process'] {
  return async ({ entries }) => {
    const emissions: OutputRecord[] = [];
    for (const entry of entries) emissions.push(...(await alertRecords(dependencies, entry)));
    return emissions;
  };
}

/** The records of an alert; none for a fact that is about something else, was refused, or is too old. */
async function alertRecords(
  dependencies: NoticeDependencies,
  entry: LogEntry,
): Promise<readonly OutputRecord[]> {
  const fact = factIn(entry);
  if (fact?.type !== 'destination.turned') return [];
  const { catalog, clock, catalogWaitMs, metrics, logger } = dependencies;
  if (clock() - timeOf(fact.at) > MAX_AGE_MS) return [];
  await awaitFact(catalog, entry, catalogWaitMs);
  const destination = catalog.state.destination(fact.entity);
  const { id, paced_until: _pace, ...turn } = fact.data;
  if (destination?.condition?.recent.includes(id) !== true) return [];
  const notice = noticeOf(catalog, destination, { id, at: fact.at, turn });
  if (notice === undefined) return [];
  const emissions = emissionsOf(catalog, destination, notice, entry);
  const ways = emissions.map(({ topic }) => (topic === TOPIC.mail ? 'mail' : 'delivery'));
  for (const way of ways.length === 0 ? ['nobody'] : ways)
    metrics.count('tributary_destination_health_alerts_total', { state: turn.state, way });
  const about = { destination: destination.id, notice: id, state: turn.state, ways };
  logger.info(about, ways.length === 0 ? 'a health alert has no recipient' : 'a health alert is sent');
  return emissions;
}

function noticeOf(
  { state }: Catalog,
  { id, name, type, workspace_id }: Destination,
  change: Pick<DestinationNotice, 'id' | 'at' | 'turn'>,
): DestinationNotice | undefined {
  const workspace = state.workspace(workspace_id);
  if (workspace === undefined) return undefined;
  return {
    kind: 'destination',
    ...change,
    organization_id: workspace.organization_id,
    workspace: { id: workspace.id, name: workspace.name },
    destination: { id, name, type },
  };
}

/** The record of the mail has no address: it is looked up when the mail is sent, so that none is in the log. */
function emissionsOf(
  { state, position }: Catalog,
  destination: Destination,
  notice: DestinationNotice,
  { timestamp }: LogEntry,
): readonly OutputRecord[] {
  const { destinationId, email } = noticeRecipients(state, destination);
  const emissions: OutputRecord[] = [];
  if (email !== null) {
    const headers = { [HEADER.catalogPosition]: String(position) };
    emissions.push({
      topic: TOPIC.mail,
      key: notice.organization_id,
      value: JSON.stringify(notice),
      headers,
    });
  }
  if (destinationId !== null) {
    const delivery = noticeDelivery(notice, destinationId, iso(timestamp));
    emissions.push({
      topic: TOPIC.deliveries,
      key: deliveryKey(delivery),
      value: JSON.stringify(delivery),
      headers: eventHeaders(delivery.event, {}, position),
    });
  }
  return emissions;
}
