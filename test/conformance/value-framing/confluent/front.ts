import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { answering, type OnLoopback, onLoopback } from '../../../helpers/on-loopback.ts';

/**
 * A proxy in front of the registry: `intercept` answers a request itself and returns true, or lets the
 * registry answer.
 */
export async function frontOf(
  registryUrl: string,
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>,
): Promise<OnLoopback> {
  const server = createServer(
    answering(async (request, response) => {
      if (await intercept(request, response)) return;
      const sent = await text(request);
      const answer = await fetch(`${registryUrl}${request.url ?? ''}`, {
        method: request.method ?? 'GET',
        ...(sent === ''
          ? {}
          : { body: sent, headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' } }),
      });
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    }),
  );
  return onLoopback(server);
}

export function answer(response: ServerResponse, status: number, body: object): true {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  return true;
}
