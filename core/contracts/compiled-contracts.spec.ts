import { describe, expect, it } from 'vitest';
import type { Contract } from '../catalog/entities.ts';
import { CompiledContracts } from './compiled-contracts.ts';

const MIB = 1024 * 1024;

function contractsOf(workspace_id: string, count: number): Contract[] {
  return Array.from({ length: count }, (_, at) => ({ id: `${at}`, workspace_id }) as Contract);
}

function keptBy(compiled: CompiledContracts<{ bytes: number }>, contracts: readonly Contract[]): number {
  return contracts.filter((contract) => compiled.get(contract) !== undefined).length;
}

describe('compiled contracts', () => {
  const open = () =>
    new CompiledContracts<{ bytes: number }>(
      { maxEach: 1_000, maxBytesEach: 8 * MIB, maxBytes: 16 * MIB },
      ({ bytes }) => bytes,
    );

  it('stay cached beside any number of heavy contracts of another workspace', () => {
    const compiled = open();
    const honest = contractsOf('honest', 20);
    for (const contract of honest) compiled.set(contract, { bytes: MIB / 10 });
    for (let round = 0; round < 3; round++)
      for (const contract of contractsOf(`hostile`, 300)) compiled.set(contract, { bytes: 3 * MIB });
    expect(keptBy(compiled, honest)).toBe(20);
    expect(compiled.bytes).toBeLessThanOrEqual(8 * MIB + 2 * MIB);
  });

  it('never exceed the bound over all workspaces: the heaviest workspace evicts its own', () => {
    const compiled = open();
    const light = contractsOf('light', 10);
    for (const contract of light) compiled.set(contract, { bytes: MIB / 2 });
    for (let at = 0; at < 12; at++) {
      for (const contract of contractsOf(`heavy ${at}`, 4)) compiled.set(contract, { bytes: 2 * MIB });
      expect(compiled.bytes).toBeLessThanOrEqual(16 * MIB);
    }
    expect(keptBy(compiled, light)).toBeGreaterThan(0);
  });

  it('include one that is heavier than its workspace’s share, as the only one, so that it is not compiled for every event', () => {
    const compiled = open();
    const [small, huge] = contractsOf('w', 2) as [Contract, Contract];
    compiled.set(small, { bytes: MIB });
    compiled.set(huge, { bytes: 500 * MIB });
    expect([keptBy(compiled, [small]), keptBy(compiled, [huge])]).toEqual([0, 1]);
  });
});
