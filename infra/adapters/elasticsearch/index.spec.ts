import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { NO_LOGGER } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { ElasticsearchConnection, type ElasticsearchCredentials } from './index.ts';

/** The `authorization` header that a server receives for these credentials. */
async function authorizationOf(credentials: ElasticsearchCredentials): Promise<string | undefined> {
  let authorization: string | undefined;
  const server = createServer((request, response) => {
    authorization = request.headers.authorization;
    response.writeHead(200, { 'content-type': 'application/json', 'x-elastic-product': 'Elasticsearch' });
    response.end('{"status":"green"}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const urls = [`http://127.0.0.1:${(server.address() as AddressInfo).port}`];
  const connection = await ElasticsearchConnection.open({ access: { urls, credentials }, logger: NO_LOGGER });
  await connection.close();
  return authorization;
}

it.each([
  ['an API key', { apiKey: 'abc' }, 'ApiKey abc'],
  ['the token of a service account', { bearer: 'AAEAAW' }, 'Bearer AAEAAW'],
  ['a user', { username: 'u', password: 'p' }, `Basic ${Buffer.from('u:p').toString('base64')}`],
])('Elasticsearch is signed in to with %s', async (_, credentials, authorization) => {
  expect(await authorizationOf(credentials)).toBe(authorization);
});
