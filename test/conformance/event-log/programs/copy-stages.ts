import { setImmediate, setTimeout } from 'node:timers/promises';
import {
  asyncHandler,
  type BatchStage,
  eventKind,
  type FlowStage,
  HEADER,
  type OutputRecord,
  type StageNote,
  TOPIC,
} from '@tributary/core';
import { RECEIVED, SOURCE, TARGET } from '../suite/harness.ts';

/** An entry of the chaos runs: the `n`th of its key. */
export interface Numbered {
  readonly key: string;
  readonly n: number;
  readonly copy?: number;
}

/** The output records of the batch stage for an entry: none, one or two. Now and then whole batches commit a position alone. */
export function copiesOf({ key, n }: Numbered): Numbered[] {
  if (n % 7 === 0 || Math.floor(n / 16) % 3 === 0) return [];
  return n % 5 === 0
    ? [
        { key, n, copy: 0 },
        { key, n, copy: 1 },
      ]
    : [{ key, n, copy: 0 }];
}

function outputRecord(topic: string, numbered: Numbered): OutputRecord {
  return {
    topic,
    key: numbered.key,
    value: JSON.stringify(numbered),
    headers: { [HEADER.workspaceId]: 'w' },
  };
}

/** Counts an entry, under the key in place of its event's name. */
function noteOf(key: string, measures: string): StageNote {
  const kind = { workspaceId: 'w', environment: 'production', source: '', key: '', type: 'track' } as const;
  const event = { messageId: key, kind: eventKind({ ...kind, name: key }), receivedAt: 0 };
  return { event, rule: '', destination: '', measures };
}

/** From the packed topic, in small batches of changing cost. */
export function batchCopy(): BatchStage {
  return {
    kind: 'batch',
    name: 'batch-copy',
    reads: [{ topic: RECEIVED }],
    writes: [SOURCE, TOPIC.funnelCounts],
    maxEntries: 64,
    async process({ entries }, context) {
      if (Math.random() < 0.2) await setTimeout(Math.random() * 4);
      for (const { value } of entries) context.count?.(noteOf(JSON.parse(value).key, 'received'));
      return entries.flatMap(({ value }) =>
        copiesOf(JSON.parse(value)).map((copy) => outputRecord(SOURCE, copy)),
      );
    },
  };
}

/** From the output of the batch stage, finishing out of order. */
export function flowCopy(): FlowStage {
  return {
    kind: 'flow',
    name: 'flow-copy',
    reads: [{ topic: SOURCE }],
    writes: [TARGET, TOPIC.funnelCounts],
    windowBytes: 32 * 1024,
    handle: asyncHandler(async ({ value }, context) => {
      const dice = Math.random();
      if (dice < 0.05) await setTimeout(Math.random() * 5);
      else if (dice < 0.5) await setImmediate();
      context.count?.(noteOf(JSON.parse(value).key, 'created'));
      return [outputRecord(TARGET, JSON.parse(value))];
    }),
  };
}
