import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

let test: TestGateway;

beforeAll(async () => {
  test = await openTestGateway();
});

afterAll(() => test.close());

const call = async (method: string, url: string, payload?: string) => {
  const { statusCode, headers, body } = await test.app.inject({
    method: method as 'PATCH',
    url,
    ...(payload === undefined ? {} : { payload, headers: { 'content-type': 'application/json' } }),
  });
  return {
    status: statusCode,
    allow: headers.allow,
    id: headers['x-request-id'],
    body: JSON.parse(body) as object,
  };
};

describe('a request without a route', () => {
  it('was 404 for a method that a path does not have: it is 405, and names those it has', async () => {
    const answer = await call('PATCH', '/api/v1/workspaces/');
    expect(answer).toMatchObject({
      status: 405,
      allow: 'GET, HEAD, POST',
      body: { error: 'method not allowed' },
    });
    expect(answer.id).toBeDefined();
    expect(await call('PUT', '/cdp/v1/users?x=1')).toMatchObject({ status: 405, allow: 'POST' });
  });

  it('was 400 where a body could not be read, although no route uses it: it is 404 or 405', async () => {
    expect(await call('POST', '/api/v1/nothing', '{')).toMatchObject({
      status: 404,
      body: { error: 'not found' },
    });
    expect(await call('PATCH', '/api/v1/workspaces', '{')).toMatchObject({ status: 405 });
  });

  it('is 404 where there is no such path', async () => {
    const answer = await call('GET', '/api/v1/workspaces/1/2/3/4');
    expect(answer).toMatchObject({ status: 404, allow: undefined, body: { error: 'not found' } });
  });
});
