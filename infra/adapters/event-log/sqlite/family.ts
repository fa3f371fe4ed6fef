import type { TopicSpec } from '@tributary/core';

/**
 * Topics live in three families of files with one writer at a time each, so that an append of received events or of a
 * fact never waits for a stage's transaction. `stages` also holds every stage's positions, beside what stages emit.
 */
export type Family = 'received' | 'catalog' | 'stages';

export const FAMILIES: readonly Family[] = ['received', 'catalog', 'stages'];

export function familyOf(spec: TopicSpec): Family {
  if (spec.packed) return 'received';
  return spec.retentionMs === 'forever' ? 'catalog' : 'stages';
}
