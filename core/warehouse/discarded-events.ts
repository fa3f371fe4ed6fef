import { type Position, parsePosition } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';

/** The place of discards and their reason. `column` is empty for a whole row, `table` too for a whole event. */
export interface DiscardPlace {
  readonly table: string;
  readonly column: string;
  readonly reason: string;
}

interface DiscardGroup extends DiscardPlace {
  /** Offset and index on `events.accepted`, by partition: `1204/0 1207/0`. */
  readonly events: Readonly<Record<string, string>>;
}

/** Which events of a load have discards, and why: by their positions, as a load may have thousands of them. */
export interface DiscardedEvents {
  readonly groups: readonly DiscardGroup[];
  /** False: there are more of them, in the table `discards` alone. */
  readonly isComplete: boolean;
}

/** Bounds on one record: about 300 KB. */
const MAX_EVENTS = 20_000;
const MAX_GROUPS = 100;
const MAX_REASON = 300;

/** Groups discards until a bound is reached. Those of profiles are left out. */
export function discardedEvents(
  discards: Iterable<DiscardPlace & { readonly position: string }>,
): DiscardedEvents {
  const groups = new Map<string, { place: DiscardPlace; events: Map<string, string[]> }>();
  let count = 0;
  for (const { table, column, reason: whole, position: text } of discards) {
    const position = parsePosition(text);
    if (position?.topic === TOPIC.profileChanges) continue;
    // The cut may halve a character, which not every store takes.
    const reason = whole.slice(0, MAX_REASON).toWellFormed();
    const key = JSON.stringify([table, column, reason]);
    const isNew = !groups.has(key);
    if (position === undefined || count === MAX_EVENTS || (isNew && groups.size === MAX_GROUPS))
      return { groups: shown(groups.values()), isComplete: false };
    const group = groups.get(key) ?? { place: { table, column, reason }, events: new Map() };
    groups.set(key, group);
    const partition = String(position.partition);
    const offsets = group.events.get(partition) ?? [];
    group.events.set(partition, offsets);
    offsets.push(offsetText(position));
    count += 1;
  }
  return { groups: shown(groups.values()), isComplete: true };
}

function shown(
  groups: Iterable<{ place: DiscardPlace; events: Map<string, string[]> }>,
): readonly DiscardGroup[] {
  return Array.from(groups, ({ place, events }) => ({
    ...place,
    events: Object.fromEntries(Array.from(events, ([partition, offsets]) => [partition, offsets.join(' ')])),
  }));
}

/** The discards of an event; undefined where that is not known. */
export function discardsOfEvent(
  discarded: DiscardedEvents | undefined,
  position: Position,
): readonly DiscardPlace[] | undefined {
  if (discarded === undefined) return undefined;
  const wanted = ` ${offsetText(position)} `;
  const found = discarded.groups.filter(({ events }) =>
    ` ${events[String(position.partition)] ?? ''} `.includes(wanted),
  );
  if (found.length === 0 && !discarded.isComplete) return undefined;
  return found.map(({ table, column, reason }) => ({ table, column, reason }));
}

function offsetText({ offset, index }: Position): string {
  return `${offset}/${index}`;
}
