import type { CatalogView, Member } from '@tributary/core';
import type { Static } from 'typebox';
import type { memberResource } from './schemas.ts';

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
