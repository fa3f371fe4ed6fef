import { adoptedLayout, announcedLayout } from '../../log/layout.ts';
import type { ConflictReason, Fact } from '../facts.ts';
import type { CatalogState } from './state.ts';

type FactOf<T extends Fact['type']> = Fact & { readonly type: T };

/**
 * Announces that a topic gets more partitions. Announcing again replaces what was announced. `version` where the topic has
 * other partitions than the author knew: by multiples alone keys stay, or move from one partition.
 */
export function announceGrowth(
  state: CatalogState,
  { entity, data }: FactOf<'topic.growth_announced'>,
): ConflictReason | undefined {
  const layout = state.layouts.get(entity) ?? { partitions: data.from, earlier: [] };
  const isMultiple = data.partitions > layout.partitions && data.partitions % layout.partitions === 0;
  if (layout.partitions !== data.from || !isMultiple) return 'version';
  state.putLayout(entity, announcedLayout(layout, data.partitions));
  return undefined;
}

/** Adopts an announced growth; adopting it again changes nothing. `missing` for one that was not announced. */
export function adoptGrowth(
  state: CatalogState,
  { entity, data, at }: FactOf<'topic.grown'>,
): ConflictReason | undefined {
  const layout = state.layouts.get(entity);
  if (layout?.partitions === data.partitions) return undefined;
  if (layout === undefined || layout.announced !== data.partitions) return 'missing';
  state.putLayout(entity, adoptedLayout(layout, at));
  return undefined;
}
