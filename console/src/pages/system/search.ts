import { oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

export type SystemSearch = ReturnType<typeof systemSearchOf>;

/** What the URL of the page says: the filter, and the stage and process that are open. */
export function systemSearchOf(search: RawSearch) {
  return stated({
    q: textIn(search, 'q'),
    show: oneIn(search, 'show', ['behind'] as const),
    stage: textIn(search, 'stage'),
    process: textIn(search, 'process'),
  });
}
