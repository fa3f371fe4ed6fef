import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Unavailable } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { engines } from '../helpers/engines.ts';
import { type OnLoopback, onLoopback } from '../helpers/on-loopback.ts';
import { harness as history } from './history/elasticsearch/harness.ts';
import { historyConformance } from './history/suite/history.conformance.ts';
import { harness as profiles } from './profile-store/elasticsearch/harness.ts';
import { Published, RETENTION_MS } from './profile-store/suite/harness.ts';
import { People } from './profile-store/suite/people.ts';
import { profileStoreConformance } from './profile-store/suite/profile-store.conformance.ts';

/** The prefix of the index names of all tests; other users' indices never begin with it. */
const OURS = 'tributary-t';

/**
 * docs/operations/rights.md lists the privileges. Elasticsearch's own authorization is not part of the packages in a
 * registry.
 */
describe.skipIf(engines() === undefined)('an Elasticsearch that grants rights one by one', () => {
  let guard: ElasticsearchGuard;
  beforeAll(async () => {
    guard = await guardElasticsearch(engines()?.elasticsearchUrl ?? '', OURS);
  });
  afterAll(() => guard.close());

  /** The installation of a harness, accessed with the documented rights. */
  const guarded = <I extends { readonly settings: string }>(made: I): I => ({
    ...made,
    settings: JSON.stringify({ ...JSON.parse(made.settings), url: guard.url }),
  });

  it('allows profile writes, searches and deletions with the documented ones, without rights on the cluster', async () => {
    const installation = guarded(await profiles.create(RETENTION_MS));
    onTestFinished(() => installation.dispose());
    const store = await profiles.open(installation.settings, { publish: new Published().publish });
    onTestFinished(() => store.close());
    const people = new People(store);
    const made = await people.write(['email:a@x']);
    expect(await people.find('email:a@x')).toEqual(made);
    await people.delete(['email:a@x']);
    expect(await people.find('email:a@x')).toBeUndefined();
    expect(guard.refused).toEqual(['GET /_cluster/health']);
  });

  it('states the missing right', async () => {
    const others = await guardElasticsearch(engines()?.elasticsearchUrl ?? '', 'of-others');
    onTestFinished(() => others.close());
    const installation = await profiles.create(RETENTION_MS);
    onTestFinished(() => installation.dispose());
    const settings = JSON.stringify({ ...JSON.parse(installation.settings), url: others.url });
    const store = await profiles.open(settings, { publish: new Published().publish });
    onTestFinished(() => store.close());
    const writing = new People(store).write(['email:a@x']);
    await expect(writing).rejects.toThrow(Unavailable);
    await expect(writing).rejects.toThrow('security_exception');
  });

  if (process.env.TRIBUTARY_TEST_LONG) {
    profileStoreConformance({
      ...profiles,
      create: async (retentionMs) => guarded(await profiles.create(retentionMs)),
    });
    historyConformance({ ...history, create: async () => guarded(await history.create()) });
  }
});

/** A proxy for Elasticsearch that refuses calls without a privilege. */
interface ElasticsearchGuard extends OnLoopback {
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
async function guardElasticsearch(upstream: string, prefix: string): Promise<ElasticsearchGuard> {
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
