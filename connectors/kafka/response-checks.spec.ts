import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { inspectResponses } from '../egress/response-inspection.ts';
import { checkResponses } from './response-checks.ts';

describe('a connection to a broker', () => {
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const each of open.splice(0)) each.close();
  });

  async function connected(): Promise<{ readonly client: Socket; readonly broker: Socket }> {
    const server = createServer().listen(0, '127.0.0.1');
    open.push(server);
    await once(server, 'listening');
    const accepted = once(server, 'connection');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    open.push({ close: () => client.destroy() });
    const [broker]: Socket[] = await accepted;
    if (broker === undefined) throw new Error('no connection came');
    open.push({ close: () => broker.destroy() });
    return { client: inspectResponses(client, checkResponses(client)), broker };
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
});
