import { expect, it } from 'vitest';
import type { ConflictReason, Fact } from '../facts.ts';
import { AT, alert, alertTurned, fact, foldAll, WORKSPACE, workspace } from './catalog.fixture.ts';

const fold = (...facts: readonly Fact[]) => foldAll([workspace(), ...facts]);
const conflict = (reason: ConflictReason) => ({ applied: false, conflict: reason });

it('of two processes that find the same change one reports it', () => {
  const { state, verdicts } = fold(alert('a1'), alertTurned('a1', 0, 't1'), alertTurned('a1', 0, 't2'));
  expect(verdicts.slice(2)).toEqual([{ applied: true, position: 2 }, conflict('version')]);
  expect(state.entity('alert', WORKSPACE, 'a1')?.condition).toMatchObject({
    state: 'firing',
    since: AT,
    value: 3,
    turns: 1,
    recent: ['t1'],
  });
});

it('a turn is no change of the alert: its version stays, and an edit keeps its state', () => {
  const changed = { ...fact('alert.updated', 'a1', { name: 'x' }), expected_version: 1 };
  const { state, verdicts } = fold(alert('a1'), alertTurned('a1', 0, 't1'), changed);
  expect(verdicts.at(-1)?.applied).toBe(true);
  expect(state.entity('alert', WORKSPACE, 'a1')).toMatchObject({
    name: 'x',
    version: 2,
    condition: { state: 'firing', turns: 1 },
  });
});
