import { expect, it } from 'vitest';
import { RecordedPositions } from './recorded-positions.ts';

const SPEC = {
  name: 'stages.positions',
  partitions: 3,
  packed: false,
  retentionMs: 'forever',
  compacted: true,
} as const;

function countingReads() {
  const reads: number[] = [];
  const pending = new Set<() => void>();
  const positions = new RecordedPositions({
    spec: SPEC,
    name: SPEC.name,
    fetcher: { fetch: async () => undefined },
    range: (partition) =>
      new Promise((resolve) => {
        reads.push(partition);
        pending.add(() => resolve({ first: 0, end: 0 }));
      }),
    append: async () => [],
  });
  const answer = async () => {
    await Promise.resolve();
    await new Promise(setImmediate);
    for (const go of pending) go();
    pending.clear();
    await new Promise(setImmediate);
  };
  return { positions, reads, answer };
}

it('a process that took over many partitions read all positions once for each: they share a read', async () => {
  const { positions, reads, answer } = countingReads();
  const first = positions.read();
  await new Promise(setImmediate);
  const others = Array.from({ length: 40 }, () => positions.read());
  await answer();
  await first;
  expect(reads).toHaveLength(2 * SPEC.partitions);
  await answer();
  await Promise.all(others);
  expect(reads).toHaveLength(2 * SPEC.partitions);
});
