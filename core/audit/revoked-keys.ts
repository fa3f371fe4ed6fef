import type { Fact } from '../catalog/facts.ts';
import { keysMadeBy, makerOf } from '../catalog/member-keys.ts';
import type { CatalogState, FoundKey } from '../catalog/state.ts';

/** What a fact about a member does to one key that the member made. */
export interface RevokedKey {
  readonly type: FoundKey['kind'];
  readonly scope: string;
  readonly id: string;
  readonly action: 'revoked';
  readonly before: object;
  readonly after: object;
}

/** Reads the state before the fact; the returned function compares it with the state once the fact was applied. */
export function watchRevokedKeys(state: CatalogState, fact: Fact): () => readonly RevokedKey[] {
  const maker = makerOf(state, fact);
  if (maker === undefined) return () => [];
  const before = new Map(keysMadeBy(state, maker).map(({ key }) => [key.id, key]));
  return () =>
    keysMadeBy(state, maker).flatMap((found): readonly RevokedKey[] => {
      const { kind: type, key } = found;
      const old = before.get(key.id);
      if (old === undefined || old === key) return [];
      const scope = found.kind === 'client_key' ? found.key.organization_id : found.key.workspace_id;
      return [{ type, scope, id: key.id, action: 'revoked', before: old, after: key }];
    });
}
