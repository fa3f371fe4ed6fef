import {
  CALL_FIELDS,
  COMMON_FIELDS,
  DROPPED,
  type Fields,
  type Frame,
  isObject,
  objectOf,
  type SdkCallType,
  textOf,
  withoutAbsent,
} from './sdk-call.ts';

/** The member of the context for fields without a place in the canonical event. */
const KEPT = 'segment';
/** The member of the context with the previous id of an alias. */
const ALIAS = 'alias';

export interface Extras {
  readonly previousId: unknown;
  /** Times by the client's clock, as sent. */
  readonly times: Fields;
  /** Fields that the event cannot have as sent, such as a text where an object belongs. */
  readonly moved: Fields;
}

/**
 * The context of an event: that of the call over that of its batch, with the fields that have no other place. Members of a
 * producer's context with reserved names move to `context.segment.context`.
 */
export function contextOf(
  call: Fields,
  type: SdkCallType,
  frame: Frame,
  { previousId, times, moved }: Extras,
): unknown {
  const callContext = objectOf(call.context ?? {});
  const shared = objectOf(frame.context ?? {});
  const own: Fields = { ...(isObject(shared) ? shared : {}), ...(isObject(callContext) ? callContext : {}) };
  const reserved: Record<string, unknown> = {};
  if (type === 'screen') reserved.screen = screenOf(own.screen, call.name);
  if (type === 'alias' && previousId !== undefined) reserved[ALIAS] = { previous_id: previousId };
  const kept = withoutAbsent({
    ...restOf(call, type),
    ...moved,
    integrations: merged(frame.integrations, call.integrations),
    ...times,
    ...(type === 'screen' || type === 'alias' ? { type } : {}),
    context: moved.context ?? reservedIn([KEPT, ...(ALIAS in reserved ? [ALIAS] : [])], own),
    ...ofBatch(frame, call.batch),
  });
  if (Object.keys(kept).length > 0) reserved[KEPT] = kept;
  const context = { ...own, ...reserved };
  return Object.keys(context).length > 0 || call.context != null ? context : undefined;
}

/** The fields of the call without a place in the canonical event. */
function restOf(call: Fields, type: SdkCallType): Fields {
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

function reservedIn(fields: readonly string[], context: Fields): Fields | undefined {
  const taken = fields.filter((field) => Object.hasOwn(context, field));
  return taken.length === 0 ? undefined : Object.fromEntries(taken.map((field) => [field, context[field]]));
}

/** Merges an object of the batch with that of the call, which takes precedence. */
function merged(shared: unknown, own: unknown): unknown {
  return isObject(shared) && isObject(own) ? { ...shared, ...own } : (own ?? shared);
}

/** The device's screen, with the name of the viewed screen. */
function screenOf(device: unknown, name: unknown): unknown {
  return isObject(device ?? {}) ? withoutAbsent({ name: textOf(name), ...(device as Fields) }) : device;
}
