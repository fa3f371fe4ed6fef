import type { paths } from '../../api/schema.gen.ts';

type AuditQuery = NonNullable<
  paths['/api/v1/workspaces/{workspaceId}/audit-log']['get']['parameters']['query']
>;
export type AuditedType = NonNullable<AuditQuery['entity_type']>;

/** Types of entities in the audit log of a workspace. */
export const WORKSPACE_TYPES = [
  'workspace',
  'workspace_member',
  'api_key',
  'write_key',
  'source',
  'contract',
  'transformation',
  'destination',
  'rule',
  'replay',
  'alert',
] as const satisfies readonly AuditedType[];

/** Types of entities in the audit log of an organization. */
export const ORGANIZATION_TYPES = [
  'organization',
  'organization_member',
  'workspace',
  'client_key',
  'profile',
] as const satisfies readonly AuditedType[];

export const AUDITED_TYPES: readonly AuditedType[] = [
  ...new Set([...ORGANIZATION_TYPES, ...WORKSPACE_TYPES]),
];

/** The words of a name: `write key` for `write_key`. */
export const wordsOf = (name: string): string => name.replaceAll('_', ' ');
