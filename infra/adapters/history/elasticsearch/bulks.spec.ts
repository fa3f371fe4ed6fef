import type { HistoryEntry } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { bulksOf, latest } from './bulks.ts';

function placed(n: number, changes: Partial<HistoryEntry> = {}) {
  const entry: HistoryEntry = {
    kind: 'audit',
    id: `e-${n}`,
    workspaceId: 'w',
    at: n,
    version: 1,
    facets: {},
    body: { n },
    ...changes,
  };
  return { entry, period: 'p' };
}

describe('the requests of a put', () => {
  it('hold every entry once, in bounded numbers', () => {
    const bulks = [...bulksOf(Array.from({ length: 1_201 }, (_, n) => placed(n)))];
    expect(Math.max(...bulks.map((bulk) => bulk.placed.length))).toBeLessThanOrEqual(500);
    expect(bulks.flatMap((bulk) => bulk.placed.map(({ entry }) => entry.at))).toEqual(
      Array.from({ length: 1_201 }, (_, n) => n),
    );
    for (const bulk of bulks) expect(bulk.operations).toHaveLength(2 * bulk.placed.length);
  });

  it('are bounded in size, however large the entries', () => {
    const large = (n: number) => placed(n, { body: { text: 'x'.repeat(400_000) } });
    const sizes = [...bulksOf([0, 1, 2, 3, 4].map(large))].map((bulk) => bulk.placed.length);
    expect(sizes).toEqual([3, 2]);
    expect([...bulksOf([])]).toEqual([]);
  });

  it('name the version, and refuse lower ones and indices that nobody made', () => {
    const [bulk] = [...bulksOf([placed(7, { version: 3 })])];
    expect(JSON.parse(bulk?.operations[0] ?? '')).toEqual({
      index: {
        _index: 'p',
        _id: expect.stringMatching(/^[\w-]{43}$/),
        version: 3,
        version_type: 'external_gte',
        require_alias: true,
      },
    });
  });
});

describe('latest', () => {
  it('keeps the highest version of an entry, the later of equal ones, and tells workspaces and kinds apart', () => {
    const all = [
      placed(1, { version: 2, body: { n: 'a' } }),
      placed(1, { version: 1 }),
      placed(1, { version: 2, body: { n: 'b' } }),
      placed(1, { workspaceId: 'v' }),
      placed(1, { kind: 'violation' }),
    ];
    expect(latest(all)).toEqual([all[2], all[3], all[4]]);
  });
});
