import { Agent, request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP load balancer: a connection stays with its server, which was ready at its last poll. */
export interface Balancer {
  readonly url: string;
  /** Servers that were ready at their last poll. */
  ready(): readonly string[];
  close(): Promise<void>;
}

/** Polls `/readyz` of each server, and distributes new connections among the ready ones in turn. */
export async function startBalancer(servers: readonly string[], pollMs: number): Promise<Balancer> {
  let ready: readonly string[] = [];
  const poll = async () => {
    const polled = await Promise.all(servers.map(async (url) => ((await isReady(url)) ? [url] : [])));
    ready = polled.flat();
  };
  await poll();
  const polling = setInterval(() => void poll(), pollMs);
  const open = new Set<Socket>();
  let next = 0;
  const proxy = createServer((client) => {
    const target = ready[next++ % ready.length];
    if (target === undefined) return void client.destroy();
    const { hostname, port } = new URL(target);
    const server = connect({ host: hostname, port: Number(port) });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      open.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => open.delete(one));
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port } = proxy.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    ready: () => ready,
    async close() {
      clearInterval(polling);
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

async function isReady(url: string): Promise<boolean> {
  try {
    const { ok } = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(1_000) });
    return ok;
  } catch {
    return false;
  }
}

export interface KeepAliveLoad {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly clients: number;
  /** Makes the body of one request; undefined ends its client. */
  readonly body: () => string | undefined;
}

/** Posts as clients that keep their connections and never retry. Returns the number of each outcome. */
export async function postKeptAlive(load: KeepAliveLoad): Promise<Readonly<Record<string, number>>> {
  const outcomes: Record<string, number> = {};
  const agent = new Agent({ keepAlive: true, maxSockets: load.clients });
  const client = async () => {
    for (let body = load.body(); body !== undefined; body = load.body()) {
      const outcome = await post(load, agent, body);
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: load.clients }, client));
  agent.destroy();
  return outcomes;
}

function post({ url, headers }: KeepAliveLoad, agent: Agent, body: string): Promise<string> {
  return new Promise((resolve) => {
    const length = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
    const sent = request(url, { method: 'POST', agent, headers: { ...headers, ...length } }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve(String(answer.statusCode)));
      answer.on('error', (error) => resolve(error.message));
    });
    sent.on('error', (error) => resolve(error.message));
    sent.end(body);
  });
}
