import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What a commit is known by: bytes of its request, or of its answer. */
export type CommitMark = { readonly request: string } | { readonly answer: string };

/** What becomes of the bytes of one connection on their way to the engine. */
export interface Sender {
  send(chunk: Buffer): void;
  /** Resolves once all that was sent is on its way. */
  sent(): Promise<void>;
}

/** A proxy in front of a server. Without a mark no commit is lost by it. */
export async function startCommitProxy(
  target: { readonly host: string; readonly port: number },
  mark?: CommitMark,
  senderTo: (engine: Socket) => Sender = (engine) => ({
    send: (chunk) => void engine.write(chunk),
    sent: async () => undefined,
  }),
) {
  const open = new Set<Socket>();
  let losesNext = false;
  let isRefusing = false;
  let bytesLeft = Number.POSITIVE_INFINITY;
  const server = createServer((client) => {
    client.on('error', () => undefined);
    if (isRefusing) return client.resetAndDestroy();
    const engine = connect({ ...target, noDelay: true });
    const { send, sent } = senderTo(engine);
    client.setNoDelay(true);
    open.add(client);
    engine.on('error', () => client.destroy());
    engine.on('close', () => client.destroy());
    client.on('close', () => {
      open.delete(client);
      // What was received is run, as by a server that does not know yet that its client is gone.
      void sent().then(() => engine.destroy());
    });
    let losesAnswer = false;
    client.on('data', (chunk: Buffer) => {
      if (losesNext && mark !== undefined && 'request' in mark && chunk.includes(mark.request)) {
        losesNext = false;
        losesAnswer = true;
      }
      const isLast = bytesLeft <= chunk.length;
      send(isLast ? chunk.subarray(0, bytesLeft) : chunk);
      bytesLeft = isLast ? Number.POSITIVE_INFINITY : bytesLeft - chunk.length;
      if (isLast) client.destroy();
    });
    engine.on('data', (chunk: Buffer) => {
      if (losesNext && mark !== undefined && 'answer' in mark && chunk.includes(mark.answer)) {
        losesNext = false;
        losesAnswer = true;
      }
      if (losesAnswer) client.destroy();
      else client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    /** Those of a harness. */
    faults: {
      /** Ends the connection in place of the answer to the next commit. */
      loseNextCommit() {
        losesNext = true;
      },
      /** Ends the connection that sends the last of so many further bytes; they arrive. */
      cutAfter(bytes: number) {
        bytesLeft = bytes;
      },
      /** Ends all connections, and refuses new ones. */
      async fail() {
        isRefusing = true;
        for (const client of open) client.destroy();
      },
      async mend() {
        isRefusing = false;
      },
    },
    async close() {
      for (const client of open) client.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
