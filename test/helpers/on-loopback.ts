import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on a free loopback port. */
export interface OnLoopback {
  /** Without a path. */
  readonly url: string;
  /** Ends its connections as well. */
  close(): Promise<void>;
}

/** Answers requests after their bodies. A request that breaks off before its end needs no answer, and is no error. */
export function answering(
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<unknown>,
): RequestListener {
  return (request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (request.complete) throw error;
    });
  };
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
