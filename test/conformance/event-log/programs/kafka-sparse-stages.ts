import { setTimeout } from 'node:timers/promises';
import { asyncHandler, type BatchStage, type FlowStage, type LogEntry } from '@tributary/core';
import { OTHER_TARGET, SOURCE, TARGET } from '../suite/harness.ts';
import { copyOf } from '../suite/stages.ts';

/**
 * Whether the `n`th entry of a key is copied, in ranges: whole chunks have no output records, and commit only
 * a position.
 */
export function isCopied(n: number): boolean {
  return Math.floor(n / 16) % 3 === 0;
}

async function sparsely(entries: readonly LogEntry[], topic: string) {
  if (Math.random() < 0.3) await setTimeout(Math.random() * 10);
  return entries.filter(({ value }) => isCopied(Number(value))).map((entry) => copyOf(entry, topic));
}

export function sparseBatch(): BatchStage {
  return {
    kind: 'batch',
    name: 'sparse-batch',
    reads: [{ topic: SOURCE }],
    writes: [TARGET],
    maxEntries: 8,
    process: ({ entries }) => sparsely(entries, TARGET),
  };
}

export function sparseFlow(): FlowStage {
  return {
    kind: 'flow',
    name: 'sparse-flow',
    reads: [{ topic: SOURCE }],
    writes: [OTHER_TARGET],
    windowBytes: 4 * 1024,
    handle: asyncHandler((entry) => sparsely([entry], OTHER_TARGET)),
  };
}
