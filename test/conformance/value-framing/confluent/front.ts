import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';

export interface Front {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * A proxy in front of the registry: `intercept` answers a request itself and returns true, or lets the
 * registry answer.
 */
export async function frontOf(
  registryUrl: string,
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>,
): Promise<Front> {
  const server = createServer(async (request, response) => {
    if (await intercept(request, response)) return;
    const sent = await text(request);
    const answer = await fetch(`${registryUrl}${request.url ?? ''}`, {
      method: request.method ?? 'GET',
      ...(sent === ''
        ? {}
        : { body: sent, headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' } }),
    });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export function answer(response: ServerResponse, status: number, body: object): true {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  return true;
}
