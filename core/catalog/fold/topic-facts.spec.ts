import { describe, expect, it } from 'vitest';
import type { Fact, FactData } from '../facts.ts';
import { applyFact } from './fold.ts';
import { CatalogState } from './state.ts';

type TopicFact = 'topic.growth_announced' | 'topic.grown';

function factOf<T extends TopicFact>(type: T, data: FactData[T], at = '2026-11-26T12:00:00.000Z'): Fact {
  const from = { address: '', request_id: '' };
  return { v: 1, type, entity: 'events.accepted', data, by: 'operator:topics', from, at } as Fact;
}

function fold(facts: readonly Fact[]) {
  const state = new CatalogState();
  return { state, verdicts: facts.map((fact, position) => applyFact(state, fact, position)) };
}

const announced = (from: number, partitions: number) =>
  factOf('topic.growth_announced', { from, partitions });
const grown = (partitions: number) => factOf('topic.grown', { partitions });
const applied = { applied: true };

describe('facts about the partitions of a topic', () => {
  it('announce and adopt a growth, each any number of times', () => {
    const { state, verdicts } = fold([
      announced(4, 12),
      announced(4, 12),
      grown(12),
      grown(12),
      announced(12, 24),
      grown(24),
    ]);
    expect(verdicts.every((verdict) => verdict.applied)).toBe(true);
    expect(state.layouts.get('events.accepted')).toEqual({
      partitions: 24,
      earlier: [4, 12],
      since: '2026-11-26T12:00:00.000Z',
    });
  });

  it('are refused where the topic has other partitions than the command knew, or nothing was announced', () => {
    expect(fold([grown(12)]).verdicts).toMatchObject([{ conflict: 'missing' }]);
    expect(fold([announced(4, 10)]).verdicts).toMatchObject([{ conflict: 'version' }]);
    expect(fold([announced(12, 4)]).verdicts).toMatchObject([{ conflict: 'version' }]);
    expect(fold([announced(4, 12), announced(4, 8), grown(12)]).verdicts).toMatchObject([
      applied,
      applied,
      { conflict: 'missing' },
    ]);
    expect(fold([announced(4, 12), grown(12), announced(4, 24)]).verdicts).toMatchObject([
      applied,
      applied,
      { conflict: 'version' },
    ]);
  });
});
