import { listSearchOf } from '../../shared/paged-list.tsx';
import { oneIn, type RawSearch, stated, textIn, wholeIn } from '../../shared/url-search.ts';

/** Those of running destinations: the others are switches. */
export const HEALTH_STATES = ['healthy', 'failing', 'retrying', 'behind', 'no_traffic'] as const;
export const SWITCHES = ['enabled', 'paused', 'disabled'] as const;
/** The first three are of warehouses. */
export const DESTINATION_TABS = ['loads', 'tables', 'discards', 'health', 'settings', 'rules'] as const;
export const LOAD_STATUSES = ['loaded', 'failed'] as const;

/** Ranges of the history, in hours. Up to 6 hours it is by the minute. */
export const HISTORY_HOURS = [1, 6, 24, 168, 720] as const;

export function destinationListSearchOf(search: RawSearch) {
  return {
    ...listSearchOf(search),
    ...stated({
      type: textIn(search, 'type'),
      state: oneIn(search, 'state', HEALTH_STATES),
      switch: oneIn(search, 'switch', SWITCHES),
    }),
  };
}

export type DestinationListSearch = ReturnType<typeof destinationListSearchOf>;

export function newDestinationSearchOf(search: RawSearch) {
  return stated({
    type: textIn(search, 'type'),
    q: textIn(search, 'q'),
    category: textIn(search, 'category'),
  });
}

export type NewDestinationSearch = ReturnType<typeof newDestinationSearchOf>;

export function destinationSearchOf(search: RawSearch) {
  return stated({
    tab: oneIn(search, 'tab', DESTINATION_TABS),
    hours: HISTORY_HOURS.find((hours) => hours === wholeIn(search, 'hours', 1, 720)),
    cursor: textIn(search, 'cursor'),
    status: oneIn(search, 'status', LOAD_STATUSES),
    table: textIn(search, 'table'),
  });
}
