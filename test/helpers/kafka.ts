import kafkajs from 'kafkajs';

/** An admin client of the public kind, quiet. */
export async function withAdmin<T>(brokers: string, work: (admin: kafkajs.Admin) => Promise<T>): Promise<T> {
  const kafka = new kafkajs.Kafka({
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

/** Removes the topics whose names begin like this. */
export async function removeTopics(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const topics = (await admin.listTopics()).filter((name) => name.startsWith(prefix));
    if (topics.length > 0) await admin.deleteTopics({ topics, timeout: 10_000 });
  });
}
