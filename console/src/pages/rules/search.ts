import { ENVIRONMENTS, EVENT_TYPES } from '../../shared/event-fields.ts';
import { listSearchOf } from '../../shared/paged-list.tsx';
import { idIn, oneIn, type RawSearch, stated, textIn, wholeIn } from '../../shared/url-search.ts';

export const RULE_VIEWS = ['matrix', 'list', 'try'] as const;

const MAX_PAGE = 10_000;

export function rulesSearchOf(search: RawSearch) {
  return {
    ...listSearchOf(search),
    ...stated({
      view: oneIn(search, 'view', RULE_VIEWS),
      environment: oneIn(search, 'environment', ENVIRONMENTS),
      destination: idIn(search, 'destination'),
      enabled: oneIn(search, 'enabled', ['true', 'false']),
      /** Page of the events of the matrix, from 1. */
      page: wholeIn(search, 'page', 2, MAX_PAGE),
      /** An event to try rules with. */
      message: textIn(search, 'message'),
    }),
  };
}

export type RulesSearch = ReturnType<typeof rulesSearchOf>;

/** The initial values of a new rule: those of a cell of the matrix. */
export function newRuleSearchOf(search: RawSearch) {
  return stated({
    destination: idIn(search, 'destination'),
    type: oneIn(search, 'type', EVENT_TYPES),
    name: textIn(search, 'name'),
    environment: oneIn(search, 'environment', ENVIRONMENTS),
  });
}
