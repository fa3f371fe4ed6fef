import type { Identity } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';

/** Attributes of one combined write at most: past it a call only grows. */
const MAX_ATTRIBUTES = 1_000;

/** What one event comes to. */
export interface WriteOfEvent {
  readonly messageId: string;
  readonly write: ProfileWrite;
}

/**
 * Events about one subject, in order, with those that follow each other in one group where a single write comes to what
 * one after the other would: those with the same identities that happened and were received in the same moment, as the
 * events of one request often are. So each meets the same owners, and what was deleted was deleted before all of them or after all.
 */
export function combinable(events: readonly WriteOfEvent[]): readonly (readonly WriteOfEvent[])[] {
  const groups: WriteOfEvent[][] = [];
  let attributes = 0;
  for (const event of events) {
    const group = groups.at(-1);
    const last = group?.at(-1);
    attributes += event.write.attributes.length;
    if (group && last && areOne(last, event) && attributes <= MAX_ATTRIBUTES) {
      group.push(event);
    } else {
      groups.push([event]);
      attributes = event.write.attributes.length;
    }
  }
  return groups;
}

function areOne(one: WriteOfEvent, other: WriteOfEvent): boolean {
  const { write: left } = one;
  const { write: right } = other;
  return (
    // Whom an alias names is only known when it is carried out.
    left.formerly === undefined &&
    right.formerly === undefined &&
    left.org === right.org &&
    left.region === right.region &&
    left.receivedAt === right.receivedAt &&
    left.happenedAt === right.happenedAt &&
    areSame(left.identities, right.identities) &&
    areSame(spellingsOf(left), spellingsOf(right))
  );
}

function areSame(left: readonly Identity[], right: readonly Identity[]): boolean {
  return (
    left.length === right.length &&
    left.every(({ type, value }, at) => type === right[at]?.type && value === right[at].value)
  );
}

function spellingsOf({ spelledBefore = [] }: ProfileWrite): readonly Identity[] {
  return spelledBefore.map(({ identity }) => identity);
}

/** The one write of a group of `combinable`. Of an attribute that is written several times the store keeps one. */
export function combined(first: ProfileWrite, others: readonly ProfileWrite[]): ProfileWrite {
  if (others.length === 0) return first;
  return { ...first, attributes: [first, ...others].flatMap(({ attributes }) => attributes) };
}
