import { type CanonicalEvent, type EventLog, eventKey, HEADER, newId, TOPIC } from '@tributary/core';

/** A track event of a workspace, as a gateway would have accepted it. */
export function trackEvent(workspaceId: string, fields: Partial<CanonicalEvent> = {}): CanonicalEvent {
  const at = new Date().toISOString();
  return {
    message_id: newId(),
    type: 'track',
    event: 'Paid',
    user_id: 'u',
    properties: {},
    timestamp: at,
    received_at: at,
    environment: 'production',
    workspace_id: workspaceId,
    ...fields,
  };
}

/** Puts events on the topics that validate writes: by default the accepted ones. */
export async function putJudged(
  log: EventLog,
  events: readonly CanonicalEvent[],
  topic: typeof TOPIC.accepted | typeof TOPIC.rejected = TOPIC.accepted,
  outcome?: 'omitted',
): Promise<void> {
  await log.append(
    topic,
    events.map((event) => ({
      key: eventKey(event),
      value: JSON.stringify(
        topic === TOPIC.accepted ? event : { event, reason: 'event blocked', violations: [] },
      ),
      headers: {
        [HEADER.catalogPosition]: '0',
        [HEADER.workspaceId]: event.workspace_id,
        [HEADER.type]: event.type,
        [HEADER.environment]: event.environment,
        ...(outcome === undefined ? {} : { [HEADER.outcome]: outcome }),
      },
    })),
  );
}
