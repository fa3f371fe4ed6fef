import { type EventType, isObject } from '@tributary/core';
import {
  CALL_FIELDS,
  COMMON_FIELDS,
  DROPPED,
  type Fields,
  type Frame,
  objectOf,
  withoutAbsent,
} from './sdk-call.ts';

/** The member of the context for fields without a place in the canonical event. */
const KEPT = 'segment';

export interface Extras {
  /** Times by the client's clock, as sent. */
  readonly times: Fields;
  /** Fields that the event cannot have as sent, such as a text where an object belongs. */
  readonly moved: Fields;
}

/**
 * The context of an event: that of the call over that of its batch, with the fields that have no other place. A member of a
 * producer's context with that name moves to `context.segment.context`.
 */
export function contextOf(call: Fields, type: EventType, frame: Frame, { times, moved }: Extras): unknown {
  const callContext = objectOf(call.context ?? {});
  const shared = objectOf(frame.context ?? {});
  const own: Fields = { ...(isObject(shared) ? shared : {}), ...(isObject(callContext) ? callContext : {}) };
  const kept = withoutAbsent({
    ...restOf(call, type),
    ...moved,
    ...times,
    context: moved.context ?? (Object.hasOwn(own, KEPT) ? { [KEPT]: own[KEPT] } : undefined),
    ...ofBatch(frame, call.batch),
  });
  const context = Object.keys(kept).length > 0 ? { ...own, [KEPT]: kept } : own;
  return Object.keys(context).length > 0 || call.context != null ? context : undefined;
}

/** The fields of the call without a place in the canonical event. */
function restOf(call: Fields, type: EventType): Fields {
  const knownFields = new Set([...COMMON_FIELDS, ...CALL_FIELDS[type], ...DROPPED]);
  return Object.fromEntries(Object.entries(call).filter(([name]) => !knownFields.has(name)));
}

/**
 * The fields of the batch itself, separate from those of the call, as both may have e.g. a `messageId`. A field of the
 * call named `batch` is added to them; the name is free there, as `batch` holds the calls.
 */
function ofBatch({ others }: Frame, own: unknown): Fields {
  return others === undefined ? {} : { batch: withoutAbsent({ ...others, batch: own }) };
}

/** Merges an object of the batch with that of the call, which takes precedence. */
export function merged(shared: unknown, own: unknown): unknown {
  return isObject(shared) && isObject(own) ? { ...shared, ...own } : (own ?? shared);
}
