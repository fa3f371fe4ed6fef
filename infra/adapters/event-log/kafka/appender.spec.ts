import { PLAIN_FRAMING, type TopicSpec } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Appender } from './appender.ts';
import { BatchLimits } from './record-batch.ts';

const TOPIC: TopicSpec = { name: 't', partitions: 1, packed: false, retentionMs: 'forever' };
const ENTRY = { key: 'k', value: '1', headers: {} };

/** A cluster of one node that confirms every request. */
function setUp(frame = PLAIN_FRAMING.frame) {
  let next = 0;
  const appender = new Appender({
    client: {
      leaderId: async () => 1,
      invalidateMetadata: () => {},
      async produce(_nodeId, { topicData }) {
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
  const append = async () => (await appender.append(TOPIC, [ENTRY], 100)).map(({ offset }) => offset);
  return { append };
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
