import type { OrganizationMember, WorkspaceMember } from '../catalog/entities.ts';
import type { Fact } from '../catalog/facts.ts';
import type { Members } from '../catalog/members.ts';
import type { CatalogState } from '../catalog/state.ts';

/** What a fact about an account does to one membership: the address that it tells may have been waited for. */
export interface Admitted {
  readonly type: 'organization_member' | 'workspace_member';
  readonly scope: string;
  readonly id: string;
  /** `joined`: the membership is this account's from now on; or it had one, which takes this one in. */
  readonly action: 'joined' | 'updated' | 'removed';
  readonly before: object;
  readonly after: object | undefined;
}

/** Looks at the state before the fact; what is answered looks at it once the fact was applied. */
export function watchAdmitted(state: CatalogState, fact: Fact): () => readonly Admitted[] {
  if (fact.type !== 'account.created' && fact.type !== 'account.updated') return () => [];
  const { email } = fact.data;
  if (email === null) return () => [];
  const about = { account: fact.entity, email };
  const watches = [
    watch('organization_member', state.organizationMembers, (member) => member.organization_id, about),
    watch('workspace_member', state.workspaceMembers, (member) => member.workspace_id, about),
  ];
  return () => watches.flatMap((admitted) => admitted());
}

function watch<M extends OrganizationMember | WorkspaceMember>(
  type: Admitted['type'],
  members: Members<M>,
  scopeOf: (member: M) => string,
  { account, email }: { readonly account: string; readonly email: string },
): () => readonly Admitted[] {
  const before = members.pendingOf(email).flatMap((pending) => {
    const known = members.ofAccount(account, scopeOf(pending));
    return known === undefined ? [pending] : [pending, known];
  });
  return () =>
    before.flatMap((member): readonly Admitted[] => {
      const scope = scopeOf(member);
      const after = members.get(scope, member.id);
      if (after === member) return [];
      const isOwn = member.account_id === null && after !== undefined;
      const action = after === undefined ? 'removed' : isOwn ? 'joined' : 'updated';
      return [{ type, scope, id: member.id, action, before: member, after }];
    });
}
