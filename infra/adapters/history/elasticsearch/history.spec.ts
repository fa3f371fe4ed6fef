import { type HistoryEntry, InvalidInput, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { BulkAnswer, ElasticsearchConnection } from '../../elasticsearch/index.ts';
import { HistoryWriter, outcomeOf } from './index.ts';
import type { PeriodIndices } from './period-indices.ts';

function dated(n: number, changes: Partial<HistoryEntry> = {}) {
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

describe('puts of several partitions', () => {
  it('filled the queue of the nodes: large ones are requests one after the other, and a small one waits for none', async () => {
    const requests: { readonly size: number; end(): void }[] = [];
    const bulk = async ({ operations }: { operations: readonly string[] }) => {
      const size = operations.length / 2;
      await new Promise<void>((end) => requests.push({ size, end }));
      return { items: Array(size).fill({ index: { status: 200 } }) };
    };
    const writer = new HistoryWriter(
      { call: (work: (client: object) => unknown) => work({ bulk }) } as unknown as ElasticsearchConnection,
      { periodOf: async () => 'p', open: async () => {} } as unknown as PeriodIndices,
    );
    const put = (count: number) => writer.put(Array.from({ length: count }, (_, n) => dated(n).entry));
    const sizes = () => requests.map(({ size }) => size).sort((x, y) => x - y);
    const [first, second] = [put(200), put(210)];
    const small = put(3);
    await expect.poll(sizes).toEqual([3, 200]);
    requests.find(({ size }) => size === 3)?.end();
    await small;
    expect(sizes()).toEqual([3, 200]);
    requests.find(({ size }) => size === 200)?.end();
    await first;
    await expect.poll(sizes).toEqual([3, 200, 210]);
    requests.find(({ size }) => size === 210)?.end();
    await second;
  });
});

const refused = (status: number, type: string): BulkAnswer => ({ status, error: { type } });
const PUT: BulkAnswer = { status: 201 };
const IGNORED = refused(409, 'version_conflict_engine_exception');
const NEVER = refused(400, 'document_parsing_exception');

describe('outcome of a bulk request', () => {
  it('has no fault when every entry was put, or a higher version is stored', () => {
    expect(outcomeOf([PUT, { status: 200 }, IGNORED])).toEqual({ withoutIndex: [] });
    expect(outcomeOf([])).toEqual({ withoutIndex: [] });
  });

  it.each([
    [429, 'es_rejected_execution_exception'],
    [503, 'unavailable_shards_exception'],
    [403, 'cluster_block_exception'],
    [400, 'index_closed_exception'],
  ])('is Unavailable after %i %s', (status, type) => {
    const { fault } = outcomeOf([PUT, NEVER, refused(status, type)]);
    expect(fault).toBeInstanceOf(Unavailable);
    expect(fault?.message).toBe(`Elasticsearch answered ${status} (${type})`);
  });

  it('is InvalidInput when the remaining entries can never be put', () => {
    expect(outcomeOf([PUT, NEVER, IGNORED]).fault).toBeInstanceOf(InvalidInput);
  });

  it('returns the entries whose period has no index', () => {
    const missing = refused(404, 'index_not_found_exception');
    const { withoutIndex, fault } = outcomeOf([PUT, missing, NEVER, missing]);
    expect(withoutIndex).toEqual([1, 3]);
    expect(fault).toBeInstanceOf(Unavailable);
  });
});
