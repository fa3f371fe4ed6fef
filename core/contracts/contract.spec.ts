import { describe, expect, it } from 'vitest';
import type { Contract } from '../catalog/entities.ts';
import { contractVersionEntries, contractVersionId } from './contract.ts';

const contract = (version: number) =>
  ({
    id: 'c1',
    workspace_id: 'w1',
    version,
    updated_at: `2026-03-01T00:00:0${version}.000Z`,
  }) as unknown as Contract;

const entry = (version: number, put: number) => ({
  kind: 'contract',
  id: contractVersionId('c1', version),
  workspaceId: 'w1',
  at: Date.parse(`2026-03-01T00:00:0${version}.000Z`),
  version: put,
  facets: { contract_id: 'c1' },
  body: contract(version),
});

describe('contractVersionEntries', () => {
  it('keeps a new version, and the replaced one once more, under the id it had', () => {
    expect(contractVersionEntries(undefined, contract(1))).toEqual([entry(1, 1)]);
    expect(contractVersionEntries(contract(1), contract(2))).toEqual([entry(1, 2), entry(2, 1)]);
  });

  it('keeps nothing where nothing changed', () => {
    expect(contractVersionEntries(contract(1), contract(1))).toEqual([]);
    expect(contractVersionEntries(undefined, undefined)).toEqual([]);
  });

  it('has ids in the order of versions', () => {
    const ids = [2, 10, 9, 100].map((version) => contractVersionId('c', version));
    expect(ids.toSorted()).toEqual([2, 9, 10, 100].map((version) => contractVersionId('c', version)));
  });
});
