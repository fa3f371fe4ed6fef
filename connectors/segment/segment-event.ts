import { type CanonicalEvent, type JsonObject, withDoubles } from '@tributary/core';

/** The names the pack has for what is named otherwise here. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
  received_at: 'receivedAt',
};

/** Ours alone: no destination of the pack knows what to do with them. */
const OURS = new Set(['environment', 'workspace_id', 'source_id']);

/** An event as Segment's libraries would have sent it. Actions compute with numbers, so they get doubles. */
export function segmentEvent(event: CanonicalEvent): JsonObject {
  const entries = Object.entries(event).flatMap(([name, value]) =>
    OURS.has(name) || value === undefined ? [] : [[NAMES[name] ?? name, value] as const],
  );
  return withDoubles({ context: {}, integrations: {}, ...Object.fromEntries(entries) });
}
