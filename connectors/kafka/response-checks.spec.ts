import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { inspectResponses } from '../egress/response-inspection.ts';
import { checkResponses } from './response-checks.ts';

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
    await vi.waitFor(() => expect(passed).toHaveLength(3));
    expect(throttled).toEqual([250]);
  });
});
