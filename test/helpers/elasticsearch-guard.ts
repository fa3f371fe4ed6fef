import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type OnLoopback, onLoopback } from './on-loopback.ts';

/** A proxy for Elasticsearch that refuses calls without a privilege. */
export interface ElasticsearchGuard extends OnLoopback {
  /** The refused calls, as `GET /_cluster/health`. */
  readonly refused: readonly string[];
}

/**
 * Calls with the privileges `manage`, `read` and `write` on indices, and the position of the index in their
 * paths.
 */
const CALLS: readonly (readonly [method: string, path: RegExp])[] = [
  ['GET', /^\/_alias\/(?<index>[^/]+)$/],
  ['PUT', /^\/(?<index>[^/_][^/]*)$/],
  ['DELETE', /^\/(?<index>[^/_][^/]*)$/],
  ['PUT', /^\/(?<index>[^/]+)\/_alias\/[^/]+$/],
  ['PUT', /^\/(?<index>[^/]+)\/_mapping$/],
  ['PUT', /^\/(?<index>[^/]+)\/_(doc|create)\/[^/]+$/],
  ['GET', /^\/(?<index>[^/]+)\/_doc\/[^/]+$/],
  ['POST', /^\/(?<index>[^/]+)\/_(search|mget|refresh)$/],
  // Privileges are of actions: the method of a refresh, which the client chooses, does not matter.
  ['GET', /^\/(?<index>[^/]+)\/_refresh$/],
];
/** Calls with the indices in the body. */
const OF_SEVERAL = /^\/_(bulk|mget)$/;

/** A user with these privileges only on indices that begin with `prefix`. */
export async function guardElasticsearch(upstream: string, prefix: string): Promise<ElasticsearchGuard> {
  const refused: string[] = [];
  const server = createServer((request, response) => {
    pass(request, response).catch(() => response.destroy());
  });

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const { method = '', url = '' } = request;
    if (!isAllowed(method, url, body)) {
      refused.push(`${method} ${pathOf(url)}`);
      response.writeHead(403, { 'content-type': 'application/json', 'x-elastic-product': 'Elasticsearch' });
      response.end('{"error":{"type":"security_exception"},"status":403}');
      return;
    }
    const type = request.headers['content-type'];
    const answer = await fetch(`${upstream}${url}`, {
      method,
      headers: {
        accept: request.headers.accept ?? '',
        ...(type === undefined ? {} : { 'content-type': type }),
      },
      ...(body === '' ? {} : { body }),
    });
    response.writeHead(answer.status, {
      'content-type': answer.headers.get('content-type') ?? '',
      'x-elastic-product': 'Elasticsearch',
    });
    if (answer.body === null) response.end();
    else Readable.fromWeb(answer.body).pipe(response);
  }

  function isAllowed(method: string, url: string, body: string): boolean {
    const path = pathOf(url);
    // The id of a scroll belongs to a search that was allowed.
    if (path === '/_search/scroll') return method === 'POST';
    if (OF_SEVERAL.test(path)) {
      const indices = [...body.matchAll(/"_index":"([^"]+)"/g)].map(([, index = '']) => index);
      return method === 'POST' && indices.length > 0 && indices.every(isOwn);
    }
    return CALLS.some(([allowed, shape]) => allowed === method && isOwn(shape.exec(path)?.groups?.index));
  }

  const isOwn = (indices = '') =>
    indices.split(',').every((index) => decodeURIComponent(index).startsWith(prefix));

  return { ...(await onLoopback(server)), refused };
}

function pathOf(url: string): string {
  return url.replace(/\?.*$/, '');
}
