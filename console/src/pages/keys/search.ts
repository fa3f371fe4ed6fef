import { type ListSearch, listSearchOf } from '../../shared/paged-list.tsx';
import { oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';

const TABS = ['write', 'sources', 'api'] as const;
export type KeysTab = (typeof TABS)[number];

/** The filters of a tab's list. Revoked keys are listed only on request. */
export interface KeyFilter extends ListSearch {
  readonly status?: 'revoked' | 'all';
  readonly environment?: 'production' | 'development';
  readonly source_id?: string;
  readonly role?: 'admin' | 'editor' | 'viewer';
}

export interface KeysSearch extends KeyFilter {
  /** Default: `write`. */
  readonly tab?: KeysTab;
}

export function keysSearchOf(search: RawSearch): KeysSearch {
  return {
    ...listSearchOf(search),
    ...stated({
      tab: oneIn(search, 'tab', TABS),
      status: oneIn(search, 'status', ['revoked', 'all']),
      environment: oneIn(search, 'environment', ['production', 'development']),
      source_id: textIn(search, 'source_id'),
      role: oneIn(search, 'role', ['admin', 'editor', 'viewer']),
    }),
  };
}

const SNIPPET_NAMES = ['curl', 'browser', 'node', 'python', 'go', 'rudderstack', 'batch'] as const;
export type SnippetName = (typeof SNIPPET_NAMES)[number];

/** The URL parameters of a write key's page. */
export interface WriteKeySearch {
  readonly sdk?: SnippetName;
}

export function writeKeySearchOf(search: RawSearch): WriteKeySearch {
  return stated({ sdk: oneIn(search, 'sdk', SNIPPET_NAMES) });
}
