import { type ListSearch, listSearchOf } from '../../shared/paged-list.tsx';
import { definedOf, textOf, wordOf } from '../../shared/search.ts';
import { AUDITED_TYPES, type AuditedType } from './audited-types.ts';

/** What an audit log is narrowed by. */
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

/** The lists of a page share the names of their filters; a tab reads those that are its own. */
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

export function organizationSearchOf(search: Record<string, unknown>): OrganizationSearch {
  return { ...filtersOf(search), ...definedOf({ tab: wordOf(search, 'tab', ORGANIZATION_TABS) }) };
}

export function settingsSearchOf(search: Record<string, unknown>): SettingsSearch {
  return { ...filtersOf(search), ...definedOf({ tab: wordOf(search, 'tab', SETTINGS_TABS) }) };
}

function filtersOf(search: Record<string, unknown>): Filters {
  return {
    ...listSearchOf(search),
    ...definedOf({
      actor: textOf(search, 'actor'),
      entity_type: wordOf(search, 'entity_type', AUDITED_TYPES),
      entity_id: textOf(search, 'entity_id'),
      action: textOf(search, 'action'),
      since: textOf(search, 'since'),
      until: textOf(search, 'until'),
      role: textOf(search, 'role'),
      status: textOf(search, 'status'),
    }),
  };
}

export interface NewWorkspaceSearch {
  /** The organization that is chosen at first. */
  readonly organization_id?: string;
}

export function newWorkspaceSearchOf(search: Record<string, unknown>): NewWorkspaceSearch {
  return definedOf({ organization_id: textOf(search, 'organization_id') });
}
