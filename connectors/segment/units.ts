import type { Unit } from './messages.ts';

/** A subscription that an event meets, and the batch in it that the event may go into. */
export interface Place {
  readonly subscription: number;
  readonly action: string;
  /** Events with the same text share a call. */
  readonly group: string;
}

interface PlacedEvent {
  readonly subject: string;
  /** In the order of the subscriptions. */
  readonly places: readonly Place[];
}

/**
 * The calls of actions for some events, in steps: those of a step are of one subscription and may be made at once, and the
 * steps follow each other. No event overtakes an earlier one of its subject. Only those that the same calls take share them,
 * so that a batch is no list of batches of one.
 */
export function stepsOf(events: readonly PlacedEvent[]): readonly (readonly Unit[])[] {
  /** By round, subscription and group. A subject whose next event cannot join its last one goes on in the next round. */
  const rounds: Map<number, Map<string, Place & { events: number[] }>>[] = [];
  const last = new Map<string, { round: number; places: readonly Place[] }>();
  for (const [number, { subject, places }] of events.entries()) {
    const before = last.get(subject);
    const round = before === undefined ? 0 : before.round + (canJoin(before.places, places) ? 0 : 1);
    if (places.length > 0) last.set(subject, { round, places });
    for (const place of places) {
      const subscriptions = rounds[round] ?? new Map();
      rounds[round] = subscriptions;
      const groups = subscriptions.get(place.subscription) ?? new Map();
      subscriptions.set(place.subscription, groups);
      const unit = groups.get(place.group) ?? { ...place, events: [] };
      groups.set(place.group, unit);
      unit.events.push(number);
    }
  }
  return rounds.flatMap((subscriptions) =>
    [...subscriptions]
      .sort(([a], [b]) => a - b)
      .map(([, groups]) =>
        [...groups.values()].map(({ subscription, action, events: own }) => ({
          subscription,
          action,
          events: own,
        })),
      ),
  );
}

/** The items at some places of a list. */
export function itemsAt<T>(list: readonly T[], places: readonly number[]): readonly T[] {
  return places.map((place) => list[place]).filter((item) => item !== undefined);
}

/** Whether an event keeps its order to the one before it in the same round: by the same calls, or by later ones alone. */
function canJoin(before: readonly Place[], places: readonly Place[]): boolean {
  const [first] = places;
  const end = before.at(-1);
  if (first === undefined || end === undefined || first.subscription > end.subscription) return true;
  return (
    before.length === places.length &&
    places.every(
      ({ subscription, group }, at) =>
        before[at]?.subscription === subscription && before[at]?.group === group,
    )
  );
}
