import {
  type Call,
  COMMON_PLACES,
  DROPPED,
  type Fields,
  type Frame,
  isObject,
  objectOf,
  PLACES,
  textOf,
  withoutAbsent,
} from './sdk-call.ts';

/** Where in the context the fields go that our event does not have. */
const KEPT = 'segment';
/** Where an alias names who the user was before. */
const ALIAS = 'alias';

export interface Extras {
  readonly previousId: unknown;
  /** By the client's clock, as they came. */
  readonly times: Fields;
  /** What is no object where one belongs, and other fields that the event cannot have as they came. */
  readonly moved: Fields;
}

/**
 * The context of an event: the call's own, over that of its batch, with what has no other place. What a producer keeps
 * in our places there moves to `context.segment.context`.
 */
export function contextOf(
  call: Fields,
  type: Call,
  frame: Frame,
  { previousId, times, moved }: Extras,
): unknown {
  const said = objectOf(call.context ?? {});
  const shared = objectOf(frame.context ?? {});
  const own: Fields = { ...(isObject(shared) ? shared : {}), ...(isObject(said) ? said : {}) };
  const ours: Record<string, unknown> = {};
  if (type === 'screen') ours.screen = screenOf(own.screen, call.name);
  if (type === 'alias' && previousId !== undefined) ours[ALIAS] = { previous_id: previousId };
  const kept = withoutAbsent({
    ...restOf(call, type),
    ...moved,
    integrations: merged(frame.integrations, call.integrations),
    ...times,
    ...(type === 'screen' || type === 'alias' ? { type } : {}),
    context: moved.context ?? theirsIn([KEPT, ...(ALIAS in ours ? [ALIAS] : [])], own),
    ...ofBatch(frame, call.batch),
  });
  if (Object.keys(kept).length > 0) ours[KEPT] = kept;
  const context = { ...own, ...ours };
  return Object.keys(context).length > 0 || call.context != null ? context : undefined;
}

/** Fields of the call without a place of their own. */
function restOf(call: Fields, type: Call): Fields {
  const placed = new Set([...COMMON_PLACES, ...PLACES[type], ...DROPPED]);
  return Object.fromEntries(Object.entries(call).filter(([name]) => !placed.has(name)));
}

/**
 * What a batch says of itself, apart from the call's own fields: both may have a `messageId`, and each means its own. A
 * field of the call that is called `batch` moves into it, where none can be, as that name is the list of the calls.
 */
function ofBatch({ others }: Frame, own: unknown): Fields {
  return others === undefined ? {} : { batch: withoutAbsent({ ...others, batch: own }) };
}

function theirsIn(places: readonly string[], context: Fields): Fields | undefined {
  const taken = places.filter((place) => Object.hasOwn(context, place));
  return taken.length === 0 ? undefined : Object.fromEntries(taken.map((place) => [place, context[place]]));
}

/** What counts for all events of a batch, below what the event says itself. */
function merged(shared: unknown, own: unknown): unknown {
  return isObject(shared) && isObject(own) ? { ...shared, ...own } : (own ?? shared);
}

/** The device's screen, with the name of what it showed. */
function screenOf(device: unknown, name: unknown): unknown {
  return isObject(device ?? {}) ? withoutAbsent({ name: textOf(name), ...(device as Fields) }) : device;
}
