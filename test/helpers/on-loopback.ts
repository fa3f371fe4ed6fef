import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on a free loopback port. */
export interface OnLoopback {
  /** Without a path. */
  readonly url: string;
  /** Ends its connections as well. */
  close(): Promise<void>;
}

export async function onLoopback(server: Server): Promise<OnLoopback> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
