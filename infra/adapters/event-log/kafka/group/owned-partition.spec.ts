import { declareTopics, NO_LOGGER, PLAIN_FRAMING, TOPIC, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { KafkaClient } from '../client/client.ts';
import type { ProduceAnswer, ProducerIdentity } from '../client/protocol.ts';
import { FirstBounds, Layouts } from '../growth.ts';
import { BatchLimits } from '../record-batch.ts';
import { Transactions } from './owned-partition.ts';

const INVALID_PRODUCER_EPOCH = 47;

/** A client without brokers: requests to coordinators succeed, and records are answered with an error code. */
class Answering extends KafkaClient {
  invalidations = 0;
  readonly #errorCode: number;

  constructor(errorCode: number) {
    super({ connection: { brokers: ['127.0.0.1:9'], clientId: 'spec' }, logger: NO_LOGGER });
    this.#errorCode = errorCode;
  }

  override async initProducer(transactionalId: string): Promise<ProducerIdentity> {
    return { transactionalId, producerId: '1', producerEpoch: 0 };
  }

  override async addPartitions(): Promise<void> {}

  override async addGroup(): Promise<void> {}

  override async commitInTransaction(): Promise<void> {}

  override async endTransaction(): Promise<void> {}

  override async leaderId(): Promise<number> {
    return 1;
  }

  override async produce(): Promise<{ readonly answer: Promise<ProduceAnswer> }> {
    const answer = new Map([[`${TOPIC.violations}/0`, { errorCode: this.#errorCode, baseOffset: '-1' }]]);
    return { answer: Promise.resolve(answer) };
  }

  override invalidateMetadata(): void {
    this.invalidations++;
  }
}

async function commitAnswered(errorCode: number) {
  const client = new Answering(errorCode);
  const layouts = new Layouts({
    topics: declareTopics({ partitions: 1, retentionMs: 1, retrySteps: [], dedicated: [] }),
    client,
    nameOf: (topic) => topic,
    clock: Date.now,
    logger: NO_LOGGER,
  });
  const never = new AbortController().signal;
  const transactions = new Transactions('validate.events.production.0', new FirstBounds(layouts), never, {
    limits: new BatchLimits(),
    transactionClients: { use: (work) => work(client) },
    membership: {
      groupId: 'validate',
      member: { groupId: 'validate', memberId: 'member', generationId: 1 },
    },
    nameOf: (topic) => topic,
    framing: PLAIN_FRAMING,
  });
  await transactions.begin();
  const position = { topic: 'events.production', partition: 0, offset: 1, metadata: '' };
  const commit = transactions.commit(
    [{ topic: TOPIC.violations, key: 'k', value: '{}', headers: {} }],
    position,
  );
  await commit.catch(() => {});
  return { client, transactions, commit };
}

describe('a transaction whose records are refused', () => {
  // Regression: the coordinator ended a transaction of a process slower than its timeout, and the raw error
  // ended the stage.
  it('is in doubt, not the death of its stage, when its epoch was ended meanwhile', async () => {
    const { commit, transactions } = await commitAnswered(INVALID_PRODUCER_EPOCH);
    await expect(commit).rejects.toThrow(Unavailable);
    await expect(commit).rejects.toThrow('writing to violations/0: INVALID_PRODUCER_EPOCH');
    expect(transactions.begun).toBe(false);
  });
});
