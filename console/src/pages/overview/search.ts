import { ENVIRONMENTS } from '../../shared/event-fields.ts';
import { oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

export const RANGES = ['24h', '7d', '30d'] as const;
export type Range = (typeof RANGES)[number];

/** The numbers of the funnel, in the order of the path of an event. */
export const MEASURES = [
  'received',
  'duplicate',
  'rejected',
  'accepted',
  'warned',
  'reevaluated',
  'matched',
  'replayed',
  'filtered',
  'passed',
  'transformed',
  'dropped',
  'failed',
  'created',
  'redriven',
  'delivered_first',
  'delivered_later',
  'unwanted',
  'retried',
  'dead',
] as const;
export type Measure = (typeof MEASURES)[number];

export function overviewSearchOf(search: RawSearch) {
  return stated({
    /** Default: `24h`. */
    range: oneIn(search, 'range', RANGES),
    environment: oneIn(search, 'environment', ENVIRONMENTS),
    /** The division of the volume into series. Default: `name`. */
    by: oneIn(search, 'by', ['type', 'name']),
    /** The measure whose events are open. */
    measure: oneIn(search, 'measure', MEASURES),
    /** A reason of that measure. */
    reason: textIn(search, 'reason'),
  });
}

export type OverviewSearch = ReturnType<typeof overviewSearchOf>;
