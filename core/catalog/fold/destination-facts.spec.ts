import { expect, it } from 'vitest';
import type { ConflictReason, Fact } from '../facts.ts';
import { AT, destination, fact, foldAll, turned, WORKSPACE, workspace } from './catalog.fixture.ts';

const fold = (...facts: readonly Fact[]) => foldAll([workspace(), ...facts]);
const conflict = (reason: ConflictReason) => ({ applied: false, conflict: reason });

it('of two concurrent health changes only the first is applied', () => {
  const { state, verdicts } = fold(destination('d1'), turned('d1', 0, 't1'), turned('d1', 0, 't2'));
  expect(verdicts.slice(2)).toEqual([{ applied: true, position: 2 }, conflict('version')]);
  expect(state.destination('d1')?.condition).toEqual({
    state: 'bad',
    because: 'failing',
    since: AT,
    paced_until: AT,
    turns: 1,
    recent: ['t1'],
  });
});

it('a change of health keeps the version of the destination and everything derived from it', () => {
  const { state } = fold(destination('d1'), turned('d1', 0, 't1'));
  const stored = state.entity('destination', WORKSPACE, 'd1');
  expect(stored).toMatchObject({ version: 1, updated_at: AT });
  const changed = { ...fact('destination.updated', 'd1', { name: 'x' }), expected_version: 1 };
  const later = fold(destination('d1'), turned('d1', 0, 't1'), changed);
  expect(later.verdicts.at(-1)?.applied).toBe(true);
  expect(later.state.destination('d1')).toMatchObject({ name: 'x', version: 2, condition: { state: 'bad' } });
});

it('a few turns are remembered, however many there were', () => {
  const many = Array.from({ length: 20 }, (_, n) => turned('d1', n, `t${n}`, n % 2 === 0 ? 'bad' : 'well'));
  const { state } = fold(destination('d1'), ...many);
  expect(state.destination('d1')?.condition).toMatchObject({ state: 'well', turns: 20 });
  expect(state.destination('d1')?.condition?.recent).toEqual([
    't19',
    't18',
    't17',
    't16',
    't15',
    't14',
    't13',
    't12',
  ]);
});

it('a deleted destination changes no state', () => {
  const { verdicts } = fold(destination('d1'), fact('destination.deleted', 'd1', {}), turned('d1', 0, 't1'));
  expect(verdicts.at(-1)).toEqual(conflict('missing'));
});
