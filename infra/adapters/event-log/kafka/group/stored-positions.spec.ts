import { NO_LOGGER, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { KafkaClient } from '../client/client.ts';
import type { OffsetCommitAnswer, OffsetCommitRequest } from '../client/protocol.ts';
import { StoredPositions } from './stored-positions.ts';

const ILLEGAL_GENERATION = 22;

/** A client without brokers: each request waits until the test answers it. */
class Answering extends KafkaClient {
  readonly requests: { readonly request: OffsetCommitRequest; answer(answer: OffsetCommitAnswer): void }[] =
    [];

  constructor() {
    super({ connection: { brokers: ['127.0.0.1:9'], clientId: 'spec' }, logger: NO_LOGGER });
  }

  override commitOffsets(request: OffsetCommitRequest): Promise<OffsetCommitAnswer> {
    return new Promise((resolve) => this.requests.push({ request, answer: resolve }));
  }

  /** Answers the oldest pending request, with a code for each partition. */
  answerNext(codeOf: (partition: number) => number = () => 0): void {
    const next = this.requests.shift();
    next?.answer({
      responses: next.request.topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map(({ partition }) => ({ partition, errorCode: codeOf(partition) })),
      })),
    });
  }
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 2));
const position = (partition: number, offset: number) => ({ topic: 't', partition, offset, metadata: '' });
const member = { groupId: 'g', memberId: 'a', generationId: 1 };

function partitionsOf(request: OffsetCommitRequest | undefined): readonly number[] {
  return request?.topics.flatMap(({ partitions }) => partitions.map(({ partition }) => partition)) ?? [];
}

describe('positions stored outside of a transaction', () => {
  it('go together when they come in one turn or while a request is under way', async () => {
    const client = new Answering();
    const positions = new StoredPositions(client, 'g');
    const first = [0, 1].map((partition) => positions.store(position(partition, 7), member));
    await turn();
    const later = [2, 3].map((partition) => positions.store(position(partition, 7), member));
    await turn();
    expect(client.requests.map(({ request }) => partitionsOf(request))).toEqual([[0, 1]]);
    client.answerNext();
    await Promise.all(first);
    await turn();
    expect(client.requests.map(({ request }) => partitionsOf(request))).toEqual([[2, 3]]);
    client.answerNext();
    await Promise.all(later);
  });

  it('a position that waited over a change of the group is stored in the name of the member it was then', async () => {
    const client = new Answering();
    const positions = new StoredPositions(client, 'g');
    const first = positions.store(position(0, 1), member);
    await turn();
    const old = positions.store(position(1, 1), member);
    const now = positions.store(position(2, 1), { ...member, generationId: 2 });
    client.answerNext();
    await first;
    await turn();
    expect(client.requests[0]?.request.groupGenerationId).toBe(1);
    expect(partitionsOf(client.requests[0]?.request)).toEqual([1]);
    client.answerNext(() => ILLEGAL_GENERATION);
    await expect(old).rejects.toThrow(Unavailable);
    await turn();
    expect(client.requests[0]?.request.groupGenerationId).toBe(2);
    client.answerNext();
    await now;
  });

  it('one that is refused fails alone', async () => {
    const client = new Answering();
    const positions = new StoredPositions(client, 'g');
    const [refused, stored] = [0, 1].map((partition) => positions.store(position(partition, 7), member));
    await turn();
    client.answerNext((partition) => (partition === 0 ? 3 : 0));
    await expect(refused).rejects.toThrow(Unavailable);
    await stored;
  });
});
