import { describe, expect, it } from 'vitest';
import { type FurtherEvidence, foundStart, storedStart } from './starting-point.ts';

const NOTHING: FurtherEvidence = {
  recorded: undefined,
  firstAt: 1_000,
  topicBegun: false,
  sinceBeginning: false,
  siblings: false,
  stageRecorded: false,
  emitted: false,
  startsAtFirst: false,
  added: false,
};
const KEPT = { stored: undefined, first: 0, end: 90 };
const at = (offset: number) => ({ offset, index: 0 });

describe('where a stage goes on', () => {
  it('is the position of its group, unless the topic is another one by now', () => {
    expect(storedStart({ ...KEPT, stored: at(7) })).toEqual({ from: at(7), found: 'stored' });
    expect(storedStart({ ...KEPT, stored: at(91) })).toEqual({ from: at(0), found: 'anew' });
    expect(storedStart(KEPT)).toBeUndefined();
  });

  it('is the recorded position where the group has none, unless the topic is younger than the record', () => {
    const recorded = { offset: 40, index: 2, at: 5_000 };
    const lost = { from: { offset: 40, index: 2 }, found: 'lost' };
    expect(foundStart(KEPT, { ...NOTHING, recorded })).toEqual(lost);
    expect(foundStart(KEPT, { ...NOTHING, recorded, siblings: true, emitted: true })).toEqual(lost);
    const anew = { from: at(0), found: 'anew' };
    expect(foundStart(KEPT, { ...NOTHING, recorded, firstAt: 5_001 })).toEqual(anew);
    expect(foundStart({ ...KEPT, end: 39 }, { ...NOTHING, recorded })).toEqual(anew);
    // All records below are gone, so none can be repeated, however young the first record is.
    expect(foundStart({ ...KEPT, first: 40 }, { ...NOTHING, recorded, firstAt: 9_000 })).toEqual(lost);
  });

  it.each<[string, Partial<FurtherEvidence>, Partial<typeof KEPT>]>([
    ['an empty topic', { siblings: true, emitted: true }, { first: 90 }],
    ['a stage that begins at the first record anyhow', { startsAtFirst: true }, { first: 5 }],
    ['a topic that the stage began elsewhere', { topicBegun: true, siblings: true, emitted: true }, {}],
    [
      'an installation that records since its beginning',
      { sinceBeginning: true, emitted: true },
      { first: 5 },
    ],
    ['a topic that was declared later', { stageRecorded: true, emitted: true }, {}],
    ['a stage that never emitted anything', {}, {}],
  ])('is the first record for %s', (_what, further, kept) => {
    const evidence = { ...KEPT, ...kept };
    expect(foundStart(evidence, { ...NOTHING, ...further })).toEqual({
      from: at(evidence.first),
      found: 'fresh',
    });
  });

  it.each<[string, Partial<FurtherEvidence>, Partial<typeof KEPT>]>([
    ['positions in other partitions', { siblings: true, stageRecorded: true }, {}],
    ['a topic without its beginning', { stageRecorded: true }, { first: 5 }],
    ['emissions of before', { emitted: true }, {}],
  ])('is for an operator to say where there are %s', (_what, further, kept) => {
    expect(foundStart({ ...KEPT, ...kept }, { ...NOTHING, ...further })).toHaveProperty('unknown');
  });
});
