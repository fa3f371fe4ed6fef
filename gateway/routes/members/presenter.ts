import type { CatalogView, FoundKey, Member } from '@tributary/core';
import type { Static } from 'typebox';
import type { memberResource, removedMember } from './schemas.ts';

export function presentMember(
  member: Member,
  state: Pick<CatalogView, 'account'>,
): Static<ReturnType<typeof memberResource>> {
  const { account_id } = member;
  const account = account_id === null ? undefined : state.account(account_id);
  return {
    id: member.id,
    ...('organization_id' in member
      ? { organization_id: member.organization_id }
      : { workspace_id: member.workspace_id }),
    account_id,
    email: account?.email ?? member.email,
    role: member.role,
    status: account_id === null ? 'pending' : 'active',
    created_by: member.created_by,
    created_at: member.created_at,
    updated_at: member.updated_at,
  };
}

export function presentMemberKey({ kind, key }: FoundKey): Static<typeof removedMember>['keys'][number] {
  return {
    id: key.id,
    type: kind,
    name: key.name,
    key_prefix: key.key_prefix,
    workspace_id: kind === 'client_key' ? null : key.workspace_id,
    organization_id: kind === 'client_key' ? key.organization_id : null,
    status: key.status,
  };
}
