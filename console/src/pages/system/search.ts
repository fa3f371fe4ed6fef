import { oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

export type SystemSearch = ReturnType<typeof systemSearchOf>;

/** The URL parameters of the page: the filter, and the open stage and process. */
export function systemSearchOf(search: RawSearch) {
  return stated({
    q: textIn(search, 'q'),
    show: oneIn(search, 'show', ['behind'] as const),
    stage: textIn(search, 'stage'),
    process: textIn(search, 'process'),
  });
}
