import { NO_LOGGER } from '@tributary/core';
import { KafkaClient } from './client.ts';

/** Brokers whose partitions all end at 7. */
export class Ends extends KafkaClient {
  constructor() {
    super({ connection: { brokers: ['127.0.0.1:9'], clientId: 'spec' }, logger: NO_LOGGER });
  }

  override async leaderId(): Promise<number> {
    return 1;
  }

  override async listOffsets(
    _of: unknown,
    { topics }: Parameters<KafkaClient['listOffsets']>[1],
  ): ReturnType<KafkaClient['listOffsets']> {
    return topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map(({ partition }) => ({
        partition,
        offset: '7',
        timestamp: '0',
        errorCode: 0,
      })),
    }));
  }
}
