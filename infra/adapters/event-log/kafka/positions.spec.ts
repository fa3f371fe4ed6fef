import { describe, expect, it } from 'vitest';
import { type Evidence, type RecordedFacts, recordedStart, storedStart } from './positions.ts';

const NOTHING_RECORDED: RecordedFacts = {
  recorded: undefined,
  firstAt: 1_000,
  sinceBeginning: false,
  startsAtFirst: false,
  added: false,
};
const KEPT = { stored: undefined, first: 0, end: 90 };
const at = (offset: number) => ({ offset, index: 0 });
const byRecords = (facts: Partial<RecordedFacts>, kept: Partial<Evidence> = {}) =>
  recordedStart({ ...KEPT, ...kept }, { ...NOTHING_RECORDED, ...facts });

describe('the position at which a stage continues', () => {
  it('is the position of its group, unless the topic is another one by now', () => {
    expect(storedStart({ ...KEPT, stored: at(7) })).toEqual({ from: at(7), found: 'stored' });
    expect(storedStart({ ...KEPT, stored: at(91) })).toEqual({ from: at(0), found: 'anew' });
    expect(storedStart(KEPT)).toBeUndefined();
  });

  it('is the recorded position where the group has none, unless the topic is younger than the record', () => {
    const recorded = { offset: 40, index: 2, at: 5_000 };
    const lost = { from: { offset: 40, index: 2 }, found: 'lost' };
    expect(byRecords({ recorded })).toEqual(lost);
    const anew = { from: at(0), found: 'anew' };
    expect(byRecords({ recorded, firstAt: 5_001 })).toEqual(anew);
    expect(byRecords({ recorded }, { end: 39 })).toEqual(anew);
    // All records below are gone, so none can be repeated, however young the first record is.
    expect(byRecords({ recorded, firstAt: 9_000 }, { first: 40 })).toEqual(lost);
  });

  it.each<[string, Partial<RecordedFacts>, Partial<Evidence>]>([
    ['an empty topic', {}, { first: 90 }],
    ['a stage that begins at the first record anyhow', { startsAtFirst: true }, { first: 5 }],
    ['an installation that records since its beginning', { sinceBeginning: true }, { first: 5 }],
    ['a partition that was added', { added: true }, { first: 5 }],
  ])('is the first record for %s', (_what, facts, kept) => {
    expect(byRecords(facts, kept)).toEqual({ from: at(kept.first ?? 0), found: 'fresh' });
  });

  it('is for an operator to say where the stage may have worked before there were records', () => {
    expect(byRecords({})).toBeUndefined();
    expect(byRecords({}, { first: 5 })).toBeUndefined();
  });
});
