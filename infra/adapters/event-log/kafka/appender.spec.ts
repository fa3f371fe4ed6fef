import { PLAIN_FRAMING, partitionOf, type TopicSpec } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Appender } from './appender.ts';
import { BatchLimits } from './record-batch.ts';

const TOPIC: TopicSpec = { name: 't', partitions: 2, packed: false, retentionMs: 'forever' };
/** By partition. */
const KEYS = [0, 1].map((partition) => {
  for (let n = 0; ; n++) if (partitionOf(`${n}`, 2) === partition) return `${n}`;
});

/** A cluster of two nodes that confirm every request; partition 1 is led by node 1, which may be silent. */
function setUp(frame = PLAIN_FRAMING.frame) {
  const state = { isSilent: false };
  let next = 0;
  const appender = new Appender({
    client: {
      leaderId: async (_topic, partition) => partition,
      invalidateMetadata: () => {},
      async produce(nodeId, { topicData }) {
        if (nodeId === 1 && state.isSilent) return { answer: new Promise(() => {}) };
        const topics = topicData.map(({ topic, partitions }) => ({
          topicName: topic,
          partitions: partitions.map(({ partition, messages }) => {
            const baseOffset = String(next);
            next += messages.length;
            return { partition, errorCode: 0, baseOffset };
          }),
        }));
        return { answer: Promise.resolve({ topics }) };
      },
    },
    nameOf: (topic) => topic,
    framing: { ...PLAIN_FRAMING, frame },
    limits: new BatchLimits(),
    maxUnconfirmedBytes: 1_000_000,
    timeoutMs: 1_000,
  });
  const append = async (partition = 0) => {
    const entry = { key: KEYS[partition] ?? '', value: '1', headers: {} };
    return (await appender.append(TOPIC, [entry], 100)).map(({ offset }) => offset);
  };
  return { state, append };
}

describe('appends', () => {
  it('of one group that could not be written failed all that came after them: the next is durable', async () => {
    let failures = 1;
    const { append } = setUp((topic, json) => {
      if (failures-- > 0) throw new Error('no schema');
      return PLAIN_FRAMING.frame(topic, json);
    });
    await expect(append()).rejects.toThrow('no schema');
    expect(await append()).toEqual([0]);
    expect(await append()).toEqual([1]);
  });
});
