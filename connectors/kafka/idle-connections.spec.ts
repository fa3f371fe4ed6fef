import { Kafka, logLevel } from 'kafkajs';
import { expect, it } from 'vitest';
import { checkOnlyWaitingRequests } from './idle-connections.ts';

interface Made {
  readonly connectionPoolBuilder: {
    build(): Promise<{
      readonly pool: readonly { readonly requestQueue: { scheduleCheckPendingRequests(): void } }[];
    }>;
  };
}

/** The queues of a client, and the timers that each sets where nothing waits. */
async function timersOf(kafka: Kafka): Promise<readonly boolean[]> {
  const key = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  );
  if (key === undefined) throw new Error('not the kafkajs that is expected');
  const cluster: Made = Reflect.get(kafka, key)({});
  const { pool } = await cluster.connectionPoolBuilder.build();
  return pool.map(({ requestQueue }) => {
    requestQueue.scheduleCheckPendingRequests();
    const timer: unknown = Reflect.get(requestQueue, 'throttleCheckTimeoutId');
    if (timer === null) return false;
    clearTimeout(timer as NodeJS.Timeout);
    return true;
  });
}

it('an idle connection woke its process a thousand times a second', async () => {
  const kafka = () => new Kafka({ brokers: ['127.0.0.1:9'], logLevel: logLevel.NOTHING });
  const [mended, other] = [kafka(), kafka()];
  checkOnlyWaitingRequests(mended);
  expect(await timersOf(mended)).toEqual([false, false]);
  expect(await timersOf(other)).toEqual([true, true]);
});
