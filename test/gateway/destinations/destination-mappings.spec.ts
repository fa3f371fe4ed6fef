import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createConnectors } from '@tributary/connectors';
import { type ConnectorCatalog, type FieldChoices, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

/* Real destinations of the pack: one whose vendor is a server of this test, and one whose vendor has no address here. */

const SECRET = 'secret-0123456789abcdef';

/** Marketo, whose address is a setting. */
const requests: string[] = [];
let created = 0;
let answers: 'all' | 'no list' | 'nothing' = 'all';
/** Called before a list is created. */
let meanwhile: () => Promise<unknown> = async () => undefined;
const vendor = createServer(async (request, response) => {
  const call = `${request.method} ${request.url?.split('?')[0]}`;
  requests.push(call);
  response.setHeader('content-type', 'application/json');
  if (call.includes('/oauth/token')) return response.end('{"access_token":"t"}');
  if (call.includes('/folder/')) return response.end('{"success":true,"result":[{"id":7}]}');
  if (answers === 'nothing') return response.destroy();
  if (call.startsWith('POST')) await meanwhile();
  if (call.startsWith('POST') && answers === 'all') created += 1;
  const refused = `{"success":false,"errors":[{"code":"709","message":"no list for ${SECRET}"}]}`;
  return response.end(answers === 'no list' ? refused : `{"success":true,"result":[{"id":${created}}]}`);
});
beforeAll(() => new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve)));
afterAll(() => new Promise((resolve) => vendor.close(resolve)));

let asked = 0;
const connectors = createConnectors({
  egressAllow: ['127.0.0.0/8'],
  dataFolder: '/nonexistent',
  clock: Date.now,
  logger: NO_LOGGER,
  metrics: NO_METRICS,
  resolve: async () => {
    asked += 1;
    throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' });
  },
});
afterAll(() => connectors.close());
/** In place of the vendor of Emarsys, where a test sets it. */
let lists: (() => FieldChoices) | undefined;
const withLists: ConnectorCatalog = {
  ...connectors,
  connector(type) {
    const connector = connectors.connector(type);
    const made = lists;
    if (connector === undefined || made === undefined) return connector;
    return { ...connector, choices: async () => made() };
  },
};
const test = await suiteGateway({ dependencies: { connectors: withLists } });
const owner = await test.openWorkspace();
const stranger = await test.openWorkspace('stranger@example.com');

beforeEach(() => {
  requests.length = 0;
  created = 0;
  lists = undefined;
  meanwhile = async () => undefined;
  asked = 0;
  answers = 'all';
});

const emarsys = { api_user: 'user', api_password: SECRET };
const contactLists = { action: 'addToContactList', field: 'contactlistid' };

describe('the choices of a dynamic field', () => {
  const choices = (url: string, body: object) => owner.ok<FieldChoices>('POST', url, body);

  it('are asked of the vendor by stored and by unsaved settings, and its silence is an answer', async () => {
    const { id } = await owner.ok<{ id: string }>('POST', './destinations', {
      name: 'E',
      type: 'segment-emarsys',
      settings: { ...emarsys, subscriptions: [] },
    });
    const unsaved = { ...contactLists, settings: { ...emarsys, subscriptions: [{ action: 'half' }] } };
    for (const [url, body] of [
      [`./destinations/${id}/dynamic-field`, contactLists],
      ['./destination-types/segment-emarsys/dynamic-field', unsaved],
    ] as const)
      expect(await choices(url, body)).toEqual({
        choices: [],
        error: { code: 'unanswered', message: 'the name has no address that may be reached' },
      });
    expect(asked).toBe(2);
  });

  it.each([
    [{ action: 'none', field: 'contactlistid' }, 'there is no action none'],
    [{ action: 'constructor', field: 'contactlistid' }, 'there is no action constructor'],
    [{ ...contactLists, field: 'none' }, 'No dynamic field named none found.'],
    [{ ...contactLists, hook: 'none' }, 'there is no hook none'],
  ])('of %j are an error of the answer', async (query, message) => {
    const { error } = await choices('./destination-types/segment-emarsys/dynamic-field', {
      ...query,
      settings: emarsys,
    });
    expect(error?.message).toContain(message);
    expect(asked).toBe(0);
  });

  it('are kept for a minute by settings and question, of one workspace; errors are not', async () => {
    let calls = 0;
    lists = () => ({ choices: [{ value: String(++calls), label: 'List' }] });
    const ask = (settings: object, query: object = {}, by = owner) =>
      by.ok<FieldChoices>('POST', './destination-types/segment-emarsys/dynamic-field', {
        ...contactLists,
        ...query,
        settings,
      });
    const first = await ask(emarsys);
    expect(await ask(emarsys)).toEqual(first);
    expect(calls).toBe(1);
    await ask({ ...emarsys, api_password: 'another' });
    await ask(emarsys, { page: '2' });
    await ask(emarsys, {}, stranger);
    expect(calls).toBe(4);
    test.clock.pass(61_000);
    expect(await ask(emarsys)).not.toEqual(first);
    lists = () => ({ choices: [], error: { message: `no ${++calls}`, code: '403' } });
    const query = { page: '3' };
    expect(await ask(emarsys, query)).not.toEqual(await ask(emarsys, query));
  });

  it('need settings of the type, and a type that has such fields', async () => {
    const ask = (type: string, settings: object) =>
      owner.call('POST', `./destination-types/${type}/dynamic-field`, { ...contactLists, settings });
    expect(await ask('segment-emarsys', { api_user: 'user' })).toMatchObject({
      status: 400,
      body: { details: [{ path: '/settings/api_password' }] },
    });
    expect((await ask('webhook', { url: 'https://hooks.example.com' })).status).toBe(400);
    expect((await ask('pigeon', {})).status).toBe(404);
  });
});

describe('a hook', () => {
  interface Result {
    readonly outputs: object | null;
    readonly error: { readonly message: string; readonly code: string } | null;
  }
  interface Stored {
    readonly id: string;
    readonly version: number;
    readonly settings: { readonly subscriptions: readonly { readonly mapping: Record<string, unknown> }[] };
  }
  const HOOK = 'retlOnMappingSave';

  async function marketo() {
    const { port } = vendor.address() as AddressInfo;
    const mapping = {
      external_id: 'from-the-mapping',
      lookup_field: 'email',
      data: { email: { '@path': '$.userId' } },
      enable_batching: true,
      batch_size: 10,
      event_name: { '@path': '$.event' },
    };
    const { id } = await owner.ok<Stored>('POST', './destinations', {
      name: 'M',
      type: 'segment-marketo-static-lists',
      settings: {
        client_id: 'id',
        client_secret: SECRET,
        api_endpoint: `http://127.0.0.1:${port}`,
        folder_name: 'folder',
        subscriptions: [{ action: 'addToList', trigger: 'type = "track"', mapping }],
      },
    });
    return {
      id,
      run: (inputs: object, more: object = {}) =>
        owner.call<Result>('POST', `./destinations/${id}/hook`, {
          subscription: 0,
          hook: HOOK,
          inputs,
          ...more,
        }),
      stored: async () => {
        const { settings } = await owner.ok<Stored>('GET', `./destinations/${id}`);
        return settings.subscriptions[0]?.mapping[HOOK];
      },
    };
  }
  const inputs = { list_name: 'Tea drinkers' };
  const outputs = { id: '1', name: 'Tea drinkers' };

  it('creates once, and the action uses what it created', async () => {
    const { id, run, stored } = await marketo();
    expect(await run(inputs)).toMatchObject({ status: 200, body: { outputs, error: null } });
    expect(await stored()).toEqual({ inputs, outputs });
    expect(created).toBe(1);
    // A repetition, as after an answer that was lost on the way to the browser.
    expect(await run(inputs)).toMatchObject({ status: 200, body: { outputs, error: null } });
    expect(created).toBe(1);
    const event = { type: 'track', event: 'Tea Poured', user_id: 'ann@example.com' };
    const [shown] = await owner.ok<{ requests: { url: string }[] }[]>(
      'POST',
      `./destinations/${id}/preview`,
      {
        event,
      },
    );
    expect(shown?.requests[0]?.url).toContain('listId=1&');
    expect(await run({ list_name: 'Others' })).toMatchObject({ body: { outputs: { id: '2' } } });
  });

  it('that the vendor refuses leaves the mapping as it was, and shows no secret', async () => {
    const { run, stored } = await marketo();
    answers = 'no list';
    const refused = await run(inputs);
    expect(refused).toMatchObject({
      status: 200,
      body: { outputs: null, error: { code: expect.any(String) } },
    });
    expect(refused.body.error?.message).toContain('no list for ***');
    expect(await stored()).toBeUndefined();
    answers = 'all';
    expect(await run(inputs)).toMatchObject({ body: { outputs } });
  });

  it('whose end is unknown is run again only where a person says so', async () => {
    const { run, stored } = await marketo();
    answers = 'nothing';
    expect(await run(inputs)).toMatchObject({ status: 200, body: { outputs: null } });
    expect(await stored()).toEqual({ pending: inputs });
    answers = 'all';
    expect(await run(inputs)).toMatchObject({ status: 409, body: { reason: 'hook_unfinished' } });
    expect(created).toBe(0);
    expect(await run(inputs, { again: true })).toMatchObject({ body: { outputs } });
    expect(await stored()).toEqual({ inputs, outputs });
  });

  it('that is called twice at a time runs once', async () => {
    const { run } = await marketo();
    const statuses = (await Promise.all([run(inputs), run(inputs)])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 409]);
    expect(created).toBe(1);
  });

  it('keeps its outputs in a destination that was changed meanwhile, and states those of a subscription that is gone', async () => {
    const { id, run, stored } = await marketo();
    meanwhile = () => owner.ok('PATCH', `./destinations/${id}`, { name: 'Renamed' });
    expect(await run(inputs)).toMatchObject({ status: 200, body: { outputs } });
    expect(await stored()).toEqual({ inputs, outputs });
    meanwhile = () => owner.ok('PATCH', `./destinations/${id}`, { settings: { subscriptions: [] } });
    expect(await run({ list_name: 'Others' })).toMatchObject({
      status: 409,
      body: { reason: 'version', outputs: { id: '2', name: 'Others' } },
    });
  });

  it('needs a subscription, a hook of its action, and inputs that fit into the mapping', async () => {
    const { run, stored } = await marketo();
    expect(await run(inputs, { subscription: 1 })).toMatchObject({
      status: 400,
      body: { details: [{ path: '/subscription' }] },
    });
    // A field of the mapping is no hook: its value must stay.
    for (const hook of ['onMappingSave', 'data'])
      expect(await run(inputs, { hook })).toMatchObject({
        status: 400,
        body: { details: [{ path: '/hook' }] },
      });
    expect(await run({ list_name: 'x'.repeat(12_000) })).toMatchObject({
      status: 400,
      body: { details: [{ path: '/settings/subscriptions/0/mapping' }] },
    });
    expect(await stored()).toBeUndefined();
    expect(requests).toEqual([]);
  });
});
