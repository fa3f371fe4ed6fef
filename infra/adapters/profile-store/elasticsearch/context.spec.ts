import { identityHash, newId } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { LocationTable } from './context.ts';

const hashOf = (n: number) => identityHash({ org: 1, region: 'eu' }, { type: 'cookie', value: String(n) });

describe('a table of cached locations', () => {
  it('never returns the value of another claim in the same slot', () => {
    const table = new LocationTable(16);
    const ucids = Array.from({ length: 200 }, () => newId());
    for (const [n, ucid] of ucids.entries()) table.set(hashOf(n), ucid);
    const known = ucids.filter((ucid, n) => table.get(hashOf(n)) === ucid);
    const wrong = ucids.filter((ucid, n) => ![undefined, ucid].includes(table.get(hashOf(n))));
    expect(known).toHaveLength(16);
    expect(wrong).toEqual([]);
    // Deleting an identity claim that was evicted leaves the one in its slot.
    for (const n of ucids.keys()) if (table.get(hashOf(n)) === undefined) table.delete(hashOf(n));
    expect(ucids.filter((_, n) => table.get(hashOf(n)) !== undefined)).toHaveLength(16);
  });

  it('loses about 1 % of the entries of a half-full table', () => {
    const table = new LocationTable(20_000);
    const ucid = newId();
    const hashes = Array.from({ length: 10_000 }, (_, n) => hashOf(n));
    for (const hash of hashes) table.set(hash, ucid);
    const known = hashes.filter((hash) => table.get(hash) !== undefined);
    expect(known.length).toBeGreaterThan(9_800);
  });
});
