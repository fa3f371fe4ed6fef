import { ENVIRONMENTS, EVENT_TYPES } from '../../shared/event-fields.ts';
import { idIn, oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

/** What the list of recent events is narrowed by. */
export function recentSearchOf(search: RawSearch) {
  return stated({
    type: oneIn(search, 'type', EVENT_TYPES),
    name: textIn(search, 'name'),
    environment: oneIn(search, 'environment', ENVIRONMENTS),
    outcome: oneIn(search, 'outcome', ['accepted', 'rejected']),
  });
}

export type RecentSearch = ReturnType<typeof recentSearchOf>;

/** What the URL of an event says beside its id. */
export function eventSearchOf(search: RawSearch) {
  const around = textIn(search, 'around');
  return stated({
    environment: oneIn(search, 'environment', ENVIRONMENTS),
    /** About when it was received, ISO 8601: for an old event with an id of the caller's own. */
    around: around !== undefined && !Number.isNaN(Date.parse(around)) ? around : undefined,
    /** The delivery that is open. */
    delivery: idIn(search, 'delivery'),
  });
}

export type EventSearch = ReturnType<typeof eventSearchOf>;
