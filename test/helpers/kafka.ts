import kafkajs from 'kafkajs';
import { eventually } from './client.ts';

/** An admin client of kafkajs, without logging. `options`: the user, where the listener asks for one. */
export async function withAdmin<T>(
  brokers: string,
  work: (admin: kafkajs.Admin) => Promise<T>,
  options: Pick<kafkajs.KafkaConfig, 'sasl'> = {},
): Promise<T> {
  const kafka = new kafkajs.Kafka({
    ...options,
    clientId: 'tests',
    brokers: brokers.split(','),
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { retries: 10, initialRetryTime: 50, maxRetryTime: 500 },
  });
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

/**
 * Deletes topics and waits until the broker has learned of it: the answer is the controller's, and for some
 * milliseconds the broker still lists the topics and accepts records for them.
 */
export async function deleteTopics(admin: kafkajs.Admin, topics: readonly string[]): Promise<void> {
  await admin.deleteTopics({ topics: [...topics], timeout: 10_000 });
  const gone = new Set(topics);
  await eventually(
    async () => (await admin.listTopics()).filter((topic) => gone.has(topic)),
    (listed) => listed.length === 0,
  );
}

/** Removes the topics with this prefix. */
export async function removeTopics(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const topics = (await admin.listTopics()).filter((name) => name.startsWith(prefix));
    if (topics.length > 0) await deleteTopics(admin, topics);
  });
}
