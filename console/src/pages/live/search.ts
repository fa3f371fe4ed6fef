import { ENVIRONMENTS, EVENT_TYPES } from '../../shared/event-fields.ts';
import { oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

export const OUTCOMES = ['accepted', 'warned', 'omitted', 'rejected'] as const;

export function liveSearchOf(search: RawSearch) {
  return stated({
    environment: oneIn(search, 'environment', ENVIRONMENTS),
    type: oneIn(search, 'type', EVENT_TYPES),
    name: textIn(search, 'name'),
    outcome: oneIn(search, 'outcome', OUTCOMES),
    /** A part of the event's JSON. */
    q: textIn(search, 'q'),
    /** Message id of the open event. */
    open: textIn(search, 'open'),
  });
}

export type LiveSearch = ReturnType<typeof liveSearchOf>;
