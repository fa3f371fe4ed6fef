import { type ListSearch, listSearchOf } from '../../shared/paged-list.tsx';
import { oneIn, type RawSearch, stated, textIn } from '../../shared/url-search.ts';
import { AUDITED_TYPES, type AuditedType } from './audited-types.ts';

/** The filters of an audit log. */
export interface AuditFilter extends ListSearch {
  readonly actor?: string;
  readonly entity_type?: AuditedType;
  readonly entity_id?: string;
  readonly action?: string;
  /** A day, or a time with its zone. */
  readonly since?: string;
  readonly until?: string;
}

export interface MembersFilter extends ListSearch {
  readonly role?: string;
  readonly status?: 'active' | 'pending';
}

const ORGANIZATION_TABS = [
  'workspaces',
  'members',
  'client-keys',
  'profiles',
  'audit-log',
  'general',
] as const;
export type OrganizationTab = (typeof ORGANIZATION_TABS)[number];

const SETTINGS_TABS = ['general', 'members', 'audit-log'] as const;
export type SettingsTab = (typeof SETTINGS_TABS)[number];

/** The lists of a page share the names of their filters; each tab reads its own. */
interface Filters extends Omit<AuditFilter, keyof ListSearch>, ListSearch {
  readonly role?: string;
  readonly status?: string;
}

export interface OrganizationSearch extends Filters {
  /** Default: `workspaces`. */
  readonly tab?: OrganizationTab;
}

export interface SettingsSearch extends Filters {
  /** Default: `general`. */
  readonly tab?: SettingsTab;
}

export function organizationSearchOf(search: RawSearch): OrganizationSearch {
  return { ...filtersOf(search), ...stated({ tab: oneIn(search, 'tab', ORGANIZATION_TABS) }) };
}

export function settingsSearchOf(search: RawSearch): SettingsSearch {
  return { ...filtersOf(search), ...stated({ tab: oneIn(search, 'tab', SETTINGS_TABS) }) };
}

function filtersOf(search: RawSearch): Filters {
  return {
    ...listSearchOf(search),
    ...stated({
      actor: textIn(search, 'actor'),
      entity_type: oneIn(search, 'entity_type', AUDITED_TYPES),
      entity_id: textIn(search, 'entity_id'),
      action: textIn(search, 'action'),
      since: textIn(search, 'since'),
      until: textIn(search, 'until'),
      role: textIn(search, 'role'),
      status: textIn(search, 'status'),
    }),
  };
}

export interface NewWorkspaceSearch {
  /** The organization selected at first. */
  readonly organization_id?: string;
}

export function newWorkspaceSearchOf(search: RawSearch): NewWorkspaceSearch {
  return stated({ organization_id: textIn(search, 'organization_id') });
}
