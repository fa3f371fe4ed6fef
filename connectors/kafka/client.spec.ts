import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Kafka, logLevel } from 'kafkajs';
import { afterEach, describe, expect, it } from 'vitest';
import { inspectResponses } from '../egress/response-heads.ts';
import { checkOnlyWaitingRequests, checkResponses } from './client.ts';

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

describe('a connection to a broker', () => {
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const each of open.splice(0)) each.close();
  });

  async function connected(): Promise<{
    readonly client: Socket;
    readonly broker: Socket;
    readonly throttled: readonly number[];
  }> {
    const server = createServer().listen(0, '127.0.0.1');
    open.push(server);
    await once(server, 'listening');
    const accepted = once(server, 'connection');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    open.push({ close: () => client.destroy() });
    const [broker]: Socket[] = await accepted;
    if (broker === undefined) throw new Error('no connection came');
    open.push({ close: () => broker.destroy() });
    const throttled: number[] = [];
    const checked = inspectResponses(
      client,
      checkResponses(client, (ms) => throttled.push(ms)),
    );
    return { client: checked, broker, throttled };
  }

  it('ended the process when the broker closed its side: the connection is closed', async () => {
    const { client, broker } = await connected();
    client.on('error', () => {});
    client.resume();
    const closed = once(client, 'close');
    broker.end();
    await closed;
    expect(client.destroyed).toBe(true);
    expect(client.write(Buffer.from('late'))).toBe(false);
  });

  it('reports the throttle time of a broker, and none of a version without it', async () => {
    const { client, broker, throttled } = await connected();
    const passed: Buffer[] = [];
    client.on('data', (chunk: Buffer) => passed.push(chunk));
    const produce = (version: number, correlation: number, ...fields: readonly number[]) => {
      const request = Buffer.alloc(12);
      request.writeInt16BE(version, 6);
      request.writeInt32BE(correlation, 8);
      client.write(request);
      const response = Buffer.alloc(8 + 4 * fields.length);
      response.writeInt32BE(4 + 4 * fields.length);
      response.writeInt32BE(correlation, 4);
      for (const [at, field] of fields.entries()) response.writeInt32BE(field, 8 + 4 * at);
      broker.write(response);
    };
    // No topics; since version 1 followed by the throttle time.
    produce(0, 1, 0);
    produce(3, 2, 0, 0);
    produce(3, 3, 0, 250);
    await expect.poll(() => passed).toHaveLength(3);
    expect(throttled).toEqual([250]);
  });
});
