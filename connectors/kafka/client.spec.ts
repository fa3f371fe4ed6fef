import { createServer } from 'node:net';
import { NO_METRICS } from '@tributary/core';
import { Kafka, logLevel } from 'kafkajs';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { parseRanges } from '../egress/address-ranges.ts';
import { createEgressGuard } from '../egress/guard.ts';
import { createNameLookups } from '../egress/name-lookups.ts';
import { checkOnlyWaitingRequests, openTopicClient } from './client.ts';
import { readSettings } from './settings.ts';

const uncaught: unknown[] = [];
const note = (error: unknown) => uncaught.push(error);

describe('a broker that answers with nonsense', () => {
  afterEach(() => {
    process.off('uncaughtException', note);
    uncaught.length = 0;
  });

  it.each([0, 1, 3, -1, 0x7fffffff])(
    'a frame of length %d costs its connection, not the process',
    async (length) => {
      process.prependListener('uncaughtException', note);
      const broker = createServer((socket) => {
        socket.on('error', () => {});
        socket.on('data', () => {
          const frame = Buffer.alloc(64);
          frame.writeInt32BE(length);
          socket.write(frame);
        });
      });
      await new Promise<void>((resolve) => broker.listen(0, '127.0.0.1', resolve));
      onTestFinished(() => void broker.close());
      const address = broker.address();
      if (address === null || typeof address === 'string') throw new Error('not listening');
      const egress = createEgressGuard({
        allowed: parseRanges(['127.0.0.0/8']),
        resolve: createNameLookups(),
        metrics: NO_METRICS,
      });
      const settings = readSettings({ brokers: [`127.0.0.1:${address.port}`], topic: 't', tls: false });
      if (settings === undefined) throw new Error('the settings are not valid');
      const client = openTopicClient(egress, settings, { timeoutMs: 500, workspaceId: 'w' });
      await expect(client.send('t', [{ value: 'v' }])).rejects.toThrow();
      await client.close().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(uncaught).toEqual([]);
    },
  );
});

interface Made {
  readonly connectionPoolBuilder: {
    build(): Promise<{
      readonly pool: readonly { readonly requestQueue: { scheduleCheckPendingRequests(): void } }[];
    }>;
  };
}

/** For each queue of a client, whether it sets a timer while nothing waits. */
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
