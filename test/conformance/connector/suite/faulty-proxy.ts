import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';

/**
 * The fault injected into a connection:
 * - `pass` forwards everything;
 * - `refuse` ends every connection, old and new;
 * - `hang` accepts connections and forwards nothing;
 * - `cut` forwards the request, and ends the connection after the first bytes of the answer.
 */
export type Fault = 'pass' | 'refuse' | 'hang' | 'cut';

/** Shorter than the shortest answer, the number of Redis. */
const CUT_BYTES = 2;

/** A proxy for an engine on 127.0.0.1 that injects faults on demand. */
export interface FaultyProxy {
  readonly port: number;
  /** All connections so far. */
  readonly taken: number;
  /** Connections that are open. */
  readonly open: number;
  set(fault: Fault): void;
  close(): Promise<void>;
}

/**
 * `announced` is an address that the engine announces to its clients; the proxy replaces its port by its own.
 */
export async function startFaultyProxy(target: {
  readonly host: string;
  readonly port: number;
  readonly announces?: boolean;
}): Promise<FaultyProxy> {
  const pairs = new Map<Socket, Socket>();
  let fault: Fault = 'pass';
  let taken = 0;

  const server = createServer((client) => {
    taken += 1;
    client.on('error', () => undefined);
    if (fault === 'refuse') return client.resetAndDestroy();
    const engine = connect({ host: target.host, port: target.port });
    engine.on('error', () => client.destroy());
    pairs.set(client, engine);
    client.on('close', () => {
      pairs.delete(client);
      engine.destroy();
    });
    engine.on('close', () => client.end());
    client.on('data', (chunk) => {
      if (fault !== 'hang') engine.write(chunk);
    });
    engine.on('data', (chunk) => {
      if (fault === 'pass') client.write(target.announces ? rewritten(chunk) : chunk);
      if (fault === 'cut') client.write(chunk.subarray(0, CUT_BYTES), () => client.resetAndDestroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;

  /** Kafka announces a broker as a length, a host and a port. */
  const announced = Buffer.alloc(4);
  announced.writeInt32BE(target.port);
  const replaced = Buffer.alloc(4);
  replaced.writeInt32BE(port);
  const rewritten = (chunk: Buffer) => {
    const host = Buffer.from(target.host);
    for (let at = chunk.indexOf(host); at !== -1; at = chunk.indexOf(host, at + 1)) {
      const behind = at + host.length;
      if (chunk.subarray(behind, behind + 4).equals(announced)) replaced.copy(chunk, behind);
    }
    return chunk;
  };

  return {
    port,
    get taken() {
      return taken;
    },
    get open() {
      return pairs.size;
    },
    set(next) {
      fault = next;
      if (next === 'refuse') for (const client of pairs.keys()) client.resetAndDestroy();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const client of pairs.keys()) client.destroy();
      }),
  };
}
