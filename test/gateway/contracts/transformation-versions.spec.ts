import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

const event = (properties: object) => ({ type: 'track', event: 'Paid', user_id: 'u', properties });
const times = (factor: number) => ({
  name: `Times ${factor}`,
  source_code: `function transform(event) { event.properties.n *= ${factor}; return event; }`,
  test_input: event({ n: 1 }),
  test_output: event({ n: factor }),
});

describe('the versions of a transformation', () => {
  let at: string;
  beforeEach(async () => {
    const { id } = await owner.ok<{ id: string }>('POST', './event-transformations', times(2));
    at = `./event-transformations/${id}`;
  });
  const put = (body: object) => owner.ok('PUT', at, body);
  const numbers = async () =>
    (await owner.ok<readonly { version: number }[]>('GET', `${at}/versions`)).map(({ version }) => version);

  it('are one for each change of its source or its test, newest first', async () => {
    await put({ ...times(2), name: 'Twice' });
    await put(times(3));
    await put({ ...times(3), description: 'Thrice' });
    expect(await numbers()).toEqual([3, 1]);
    const first = await owner.ok('GET', `${at}/versions/1`);
    const { name, ...written } = times(2);
    expect(first).toEqual({
      ...written,
      version: 1,
      created_at: expect.any(String),
      created_by: expect.any(String),
    });
    expect(await owner.ok('GET', `${at}/versions`)).toMatchObject([
      { source_code: times(3).source_code },
      first,
    ]);
  });

  it('are 404 for an unknown number', async () => {
    await put({ ...times(2), name: 'Twice' });
    for (const version of ['2', '9', '0', '-1', '1.0', 'latest'])
      expect((await owner.call('GET', `${at}/versions/${version}`)).status).toBe(404);
    expect(await owner.call('POST', `${at}/rollback`, { version: 7 })).toMatchObject(refusedFor('/version'));
  });

  it('are restored by a rollback, as a new version', async () => {
    await put(times(3));
    const back = await owner.call('POST', `${at}/rollback`, { version: 1 });
    expect(back).toMatchObject({
      status: 200,
      body: { ...times(2), name: 'Times 3', status: 'active', version: 3 },
    });
    expect(back.headers.etag).toBe('"3"');
    expect(await numbers()).toEqual([3, 2, 1]);
    // A rollback to the current version changes nothing.
    expect((await owner.ok<{ version: number }>('POST', `${at}/rollback`, { version: 3 })).version).toBe(3);
  });

  it('are not restored at another version than that of If-Match, nor if the test fails under an enabled rule', async () => {
    await put({ ...times(3), test_output: event({ n: 7 }) });
    await put(times(4));
    const headers = { 'if-match': '"2"' };
    expect((await owner.call('POST', `${at}/rollback`, { version: 1 }, headers)).status).toBe(412);
    const destination = await owner.destination();
    await owner.ok('POST', './event-forwarding-rules', {
      name: 'All',
      destination_id: destination.id,
      transformation_id: at.split('/').at(-1),
    });
    expect((await owner.call('POST', `${at}/rollback`, { version: 2 })).status).toBe(409);
    expect((await owner.call('POST', `${at}/rollback`, { version: 1 })).status).toBe(200);
  });

  it('name their authors', async () => {
    await (await owner.withApiKey('editor')).ok('PUT', at, times(3));
    const versions = await owner.ok<readonly { created_by: string }[]>('GET', `${at}/versions`);
    expect(versions.map(({ created_by }) => created_by)).toEqual([
      expect.stringMatching(/^key:[0-9a-f-]{36}$/),
      expect.stringMatching(/^[0-9a-f-]{36}$/),
    ]);
  });
});
