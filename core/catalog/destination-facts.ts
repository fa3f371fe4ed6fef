import { conditionAfter } from '../delivery/health-change.ts';
import type { ConflictReason, Fact } from './facts.ts';
import type { CatalogState } from './state.ts';

/** Neither the version nor `updated_at` moves: nobody changed the destination, and what was made of it stays good. */
export function turnDestination(
  state: CatalogState,
  { entity, expected_version, data }: Fact & { readonly type: 'destination.turned' },
): ConflictReason | undefined {
  const stored = state.destination(entity);
  if (stored === undefined) return 'missing';
  if (expected_version !== undefined && expected_version !== (stored.condition?.turns ?? 0)) return 'version';
  state.put('destination', { ...stored, condition: conditionAfter(stored.condition, data) });
  return undefined;
}
