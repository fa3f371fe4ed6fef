import { idIn, oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

export const DELIVERY_TABS = ['failures', 'list', 'replays'] as const;
export const STATUSES = ['dead', 'retrying', 'delivered', 'unwanted', 'discarded'] as const;
export const CAUSES = [
  'destination',
  'transformation',
  'rule',
  'filter_failed',
  'filter_not_evaluated',
  'expired',
  'over_budget',
] as const;

/** The same filters for groups, the list, redrives and discards. */
export function deliveriesSearchOf(search: RawSearch) {
  return stated({
    tab: oneIn(search, 'tab', DELIVERY_TABS),
    status: oneIn(search, 'status', STATUSES),
    destination: idIn(search, 'destination'),
    rule: idIn(search, 'rule'),
    cause: oneIn(search, 'cause', CAUSES),
    reason: textIn(search, 'reason'),
    group: textIn(search, 'group'),
    since: dayIn(search, 'since'),
    until: dayIn(search, 'until'),
    cursor: textIn(search, 'cursor'),
  });
}

export type DeliveriesSearch = ReturnType<typeof deliveriesSearchOf>;

export function newReplaySearchOf(search: RawSearch) {
  return stated({ rule: idIn(search, 'rule'), outcome: oneIn(search, 'outcome', ['rejected']) });
}

function dayIn(search: RawSearch, name: string): string | undefined {
  const value = textIn(search, name);
  return value !== undefined && !Number.isNaN(Date.parse(value)) ? value : undefined;
}
