/** Fields that the server adds to an event: a producer may not send them. */
const ADDED = new Set(['received_at', 'environment', 'workspace_id', 'source_id']);

/** An event of the API as its producer sent it. */
export function producerEventOf(event: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(event).filter(([name]) => !ADDED.has(name)));
}
