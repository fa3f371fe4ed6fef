import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy in front of an engine. */
export interface CommitProxy {
  readonly port: number;
  /** Ends the connection in place of the answer to the next commit. */
  loseNextCommit(): void;
  /** Ends the connection that sends the last of so many further bytes; they arrive. */
  cutAfter(bytes: number): void;
  /** Ends all connections, and refuses new ones. */
  refuse(isRefusing: boolean): void;
  close(): Promise<void>;
}

/** PostgreSQL's message "command complete" of a commit. */
const COMMITTED = Buffer.from('C\0\0\0\x0bCOMMIT\0');

/** `request`: what a request to commit holds, where its answer does not tell what it answers. */
export async function startCommitProxy(
  target: { readonly host: string; readonly port: number },
  request?: string,
): Promise<CommitProxy> {
  const open = new Set<Socket>();
  let losesNext = false;
  let isRefusing = false;
  let bytesLeft = Number.POSITIVE_INFINITY;
  const server = createServer((client) => {
    client.on('error', () => undefined);
    if (isRefusing) return client.resetAndDestroy();
    const engine = connect(target);
    open.add(client);
    engine.on('error', () => client.destroy());
    engine.on('close', () => client.destroy());
    client.on('close', () => {
      open.delete(client);
      engine.destroy();
    });
    let commits = false;
    client.on('data', (chunk: Buffer) => {
      commits = request !== undefined && chunk.includes(request);
      const isLast = bytesLeft <= chunk.length;
      engine.write(isLast ? chunk.subarray(0, bytesLeft) : chunk);
      bytesLeft = isLast ? Number.POSITIVE_INFINITY : bytesLeft - chunk.length;
      if (isLast) client.destroy();
    });
    engine.on('data', (chunk: Buffer) => {
      if (losesNext && (commits || chunk.includes(COMMITTED))) {
        losesNext = false;
        client.destroy();
      } else client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    loseNextCommit() {
      losesNext = true;
    },
    cutAfter(bytes) {
      bytesLeft = bytes;
    },
    refuse(next) {
      isRefusing = next;
      if (next) for (const client of open) client.destroy();
    },
    async close() {
      for (const client of open) client.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
