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
import { awaitFact } from '../causality.ts';
import { eventHeaders, factIn, timeOf } from '../entry.ts';

export interface NoticeDependencies {
  readonly catalog: Catalog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
}

/** A turn that is older is no news: nobody is told of it, ms. */
const NEWS_MS = 24 * 60 * 60_000;

/**
 * Tells people of destinations that turned bad, or well again: a fact of the catalog about that becomes a mail, a
 * delivery to another destination, or both. What is emitted for a fact is committed with it, so each turn is told
 * once, whichever processes found it and whatever crashed; from there on it goes as mails and deliveries go.
 */
export function notice(dependencies: NoticeDependencies): BatchStage['process'] {
  return async ({ entries }) => {
    const emissions: OutputRecord[] = [];
    for (const entry of entries) emissions.push(...(await tell(dependencies, entry)));
    return emissions;
  };
}

/** Nothing for a fact that is about something else, was refused, or is too old. */
async function tell(dependencies: NoticeDependencies, entry: LogEntry): Promise<readonly OutputRecord[]> {
  const fact = factIn(entry);
  if (fact?.type !== 'destination.turned') return [];
  const { catalog, clock, catalogWaitMs, metrics, logger } = dependencies;
  if (clock() - timeOf(fact.at) > NEWS_MS) return [];
  await awaitFact(catalog, entry, catalogWaitMs);
  const destination = catalog.state.destination(fact.entity);
  const { id, paced_until: _pace, ...turn } = fact.data;
  if (destination?.condition?.recent.includes(id) !== true) return [];
  const told = noticeOf(catalog, destination, { id, at: fact.at, turn });
  if (told === undefined) return [];
  const emissions = emissionsOf(catalog, destination, told, entry);
  const ways = emissions.map(({ topic }) => (topic === TOPIC.mail ? 'mail' : 'delivery'));
  for (const way of ways.length === 0 ? ['nobody'] : ways)
    metrics.count('tributary_destination_health_alerts_total', { state: turn.state, way });
  const about = { destination: destination.id, notice: id, state: turn.state, ways };
  logger.info(
    about,
    ways.length === 0 ? 'nobody is to be told of a destination' : 'a destination is told of',
  );
  return emissions;
}

function noticeOf(
  { state }: Catalog,
  { id, name, type, workspace_id }: Destination,
  turned: Pick<DestinationNotice, 'id' | 'at' | 'turn'>,
): DestinationNotice | undefined {
  const workspace = state.workspace(workspace_id);
  if (workspace === undefined) return undefined;
  return {
    kind: 'destination',
    ...turned,
    organization_id: workspace.organization_id,
    workspace: { id: workspace.id, name: workspace.name },
    destination: { id, name, type },
  };
}

/** The address is looked up when the mail is sent: none stands in the log. */
function emissionsOf(
  { state, position }: Catalog,
  destination: Destination,
  told: DestinationNotice,
  { timestamp }: LogEntry,
): readonly OutputRecord[] {
  const { destinationId, email } = noticeRecipients(state, destination);
  const emissions: OutputRecord[] = [];
  if (email !== null) {
    const headers = { [HEADER.catalogPosition]: String(position) };
    emissions.push({ topic: TOPIC.mail, key: told.organization_id, value: JSON.stringify(told), headers });
  }
  if (destinationId !== null) {
    const delivery = noticeDelivery(told, destinationId, iso(timestamp));
    emissions.push({
      topic: TOPIC.deliveries,
      key: deliveryKey(delivery),
      value: JSON.stringify(delivery),
      headers: eventHeaders(delivery.event, {}, position),
    });
  }
  return emissions;
}
