import { ENVIRONMENTS, EVENT_TYPES } from '../../shared/event-fields.ts';
import { idIn, oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

/** The filters of the list of recent events. */
export function recentSearchOf(search: RawSearch) {
  return stated({
    type: oneIn(search, 'type', EVENT_TYPES),
    name: textIn(search, 'name'),
    environment: oneIn(search, 'environment', ENVIRONMENTS),
    outcome: oneIn(search, 'outcome', ['accepted', 'rejected']),
  });
}

export type RecentSearch = ReturnType<typeof recentSearchOf>;

/** The URL parameters of an event beside its id. */
export function eventSearchOf(search: RawSearch) {
  const around = textIn(search, 'around');
  return stated({
    environment: oneIn(search, 'environment', ENVIRONMENTS),
    /** Approximate time of receipt, ISO 8601: for an old event with an id chosen by the caller. */
    around: around !== undefined && !Number.isNaN(Date.parse(around)) ? around : undefined,
    /** The id of the open delivery. */
    delivery: idIn(search, 'delivery'),
  });
}

export type EventSearch = ReturnType<typeof eventSearchOf>;
