import { expect, it } from 'vitest';
import type { ConflictReason, Fact } from '../facts.ts';
import {
  AT,
  destination,
  fact,
  foldAll,
  turned,
  WORKSPACE,
  warehouseTable,
  workspace,
} from './catalog.fixture.ts';

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

it('the tables of a warehouse grow by columns, and are removed with their destination', () => {
  const text = { type: 'text', origin: 'value', path: 'properties.price', since: AT } as const;
  const grown = fact('warehouse_table.updated', 'x1', { columns: { price: text } });
  const before = [
    destination('d1'),
    destination('d2'),
    warehouseTable('x1', 'd1'),
    warehouseTable('x2', 'd2'),
  ];
  const { state, verdicts } = fold(...before, grown, { ...grown, expected_version: 1 });
  expect(verdicts.at(-1)).toEqual(conflict('version'));
  const [table] = state.listing('warehouse_table', WORKSPACE, 'd1').newestFirst();
  expect(table).toMatchObject({ version: 2, columns: { id: { type: 'text' }, price: text } });
  const later = fold(...before, grown, fact('destination.deleted', 'd1', {}), warehouseTable('x3', 'd1'));
  expect(later.verdicts.at(-1)).toEqual(conflict('missing'));
  expect(later.state.entities('warehouse_table', WORKSPACE).map(({ id }) => id)).toEqual(['x2']);
});
