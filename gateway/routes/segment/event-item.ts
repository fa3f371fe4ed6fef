import { CALLS, type Call, isCall, PLACES } from './call.ts';
import { correctedTime } from './corrected-time.ts';
import { contextOf } from './event-context.ts';
import { type Fields, isObject, objectOf, textOf, withoutAbsent } from './fields.ts';
import type { Frame } from './frame.ts';

/**
 * A call of the Segment API as an item of a batch of ours, to be checked by the same schema: what has the wrong type is
 * handed on as it is and refused there. Nothing that was said is lost:
 *
 * - fields that our event does not have are in `context.segment`, under their own names, and those of its batch in
 *   `context.segment.batch`;
 * - a `screen` is a page with `context.screen` (the device's screen stays beside it) and `context.segment.type`;
 * - an `alias` is an identify with `context.alias.previous_id` and `context.segment.type`;
 * - the traits of an identify are also found in `context.traits`, where RudderStack's SDKs have them;
 * - where `timestamp` was corrected by `sentAt`, `context.segment` has both as they came.
 *
 * Ids that are whole numbers become text, and empty ones count as absent, as does an empty list where an object belongs:
 * that is how some SDKs write them. `receivedAt`: ISO 8601.
 */
export function eventItem(said: unknown, frame: Frame, receivedAt: string): unknown {
  if (!isObject(said) || !isCall(said.type)) return said;
  const { type } = said;
  const call = inCamelCase(said);
  const happened = call.timestamp ?? call.originalTimestamp;
  const sentAt = call.sentAt ?? frame.sentAt;
  const corrected = correctedTime(happened, sentAt, receivedAt);
  return withoutAbsent({
    type: CALLS[type],
    message_id: idOf(call.messageId),
    user_id: idOf(call.userId),
    anonymous_id: idOf(call.anonymousId),
    ...partsOf(call, type),
    timestamp: corrected ?? happened,
    context: contextOf(call, type, frame, {
      previousId: idOf(call.previousId),
      times: corrected === undefined ? { sentAt } : { sentAt, timestamp: call.timestamp },
    }),
  });
}

/** The calls for e-mails in Segment's own documents have `user_id`. It counts where nobody is named otherwise. */
function inCamelCase(call: Fields): Fields {
  if (idOf(call.userId) !== undefined || idOf(call.anonymousId) !== undefined) return call;
  const { user_id: userId, anonymous_id: anonymousId, ...rest } = call;
  return { ...rest, userId, anonymousId };
}

/** What only some types have. */
function partsOf(call: Fields, type: Call): Fields {
  const placed = PLACES[type];
  const of = (name: string, read: (value: unknown) => unknown) =>
    placed.includes(name) ? read(call[name]) : undefined;
  return {
    event: of('event', (event) => event),
    name: of('name', textOf),
    group_id: of('groupId', idOf),
    properties: of('properties', objectOf),
    traits: of('traits', type === 'identify' ? (traits) => traitsOf(traits, call) : objectOf),
  };
}

/** RudderStack's SDKs have what an identify says of somebody in the context, beside none or empty ones. It stays there too. */
function traitsOf(traits: unknown, { context }: Fields): unknown {
  const own = objectOf(traits);
  if (isObject(own) && Object.keys(own).length > 0) return own;
  return (isObject(context) ? objectOf(context.traits) : undefined) ?? own;
}

function idOf(value: unknown): unknown {
  return Number.isSafeInteger(value) ? String(value) : textOf(value);
}
