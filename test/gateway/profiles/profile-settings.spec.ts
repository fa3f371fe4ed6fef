import { createHash, randomUUID } from 'node:crypto';
import { type ProfileOperation, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openProfiles, type ProfileClient, sendInto } from '../../helpers/profile-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

interface Refusal {
  readonly error: string;
  readonly details: readonly { readonly path: string; readonly message: string }[];
}

const test = await suiteGateway();

/** A new organization, its settings and its profiles. */
async function open(): Promise<{ owner: Client; path: string; client: ProfileClient; id: string }> {
  const owner = await test.openWorkspace(`${randomUUID()}@example.com`);
  const { client, id } = await openProfiles(owner, owner.workspaceId, sendInto(test.app));
  return { owner, client, id, path: `/organizations/${id}/profile-settings` };
}

const refused = (details: readonly object[]) => ({
  status: 400,
  body: { error: 'invalid request', details },
});

describe('the profile settings of an organization', () => {
  it('are the defaults until they are set, and are replaced as a whole at the version that the caller read', async () => {
    const { owner, path, id } = await open();
    const defaults = {
      default_country: null,
      blocked_identities: [],
      identity_limits: [{ type: 'anonymous_id', max: 300, drop_oldest: true }],
      max_user_ids_per_identity: 100,
    };
    const read = await owner.call('GET', path);
    expect(read).toMatchObject({
      status: 200,
      body: defaults,
      headers: { etag: expect.stringMatching(/^"\d+"$/) },
    });
    const changed = await owner.call<object>(
      'PUT',
      path,
      {
        default_country: 'BR',
        blocked_identities: [{ type: 'email', value: 'till@shop.example' }, { pattern: '^demo-' }],
        identity_limits: [{ type: 'cookie', max: 40, drop_oldest: true }],
        max_user_ids_per_identity: 7,
      },
      { 'if-match': String(read.headers.etag) },
    );
    const wanted = {
      default_country: 'BR',
      blocked_identities: [
        { type: 'email', value: 'till@shop.example', pattern: null },
        { type: null, value: null, pattern: '^demo-' },
      ],
      identity_limits: [{ type: 'cookie', max: 40, drop_oldest: true }, ...defaults.identity_limits],
      max_user_ids_per_identity: 7,
    };
    expect(changed).toMatchObject({ status: 200, body: wanted });
    const stale = await owner.call('PUT', path, {}, { 'if-match': String(read.headers.etag) });
    expect(stale).toMatchObject({ status: 412 });
    // A change of the organization leaves the settings unchanged.
    await owner.ok('PUT', `/organizations/${id}`, { name: 'Renamed', regions: ['eu'] });
    expect((await owner.call('GET', path)).body).toEqual(wanted);
    expect(await owner.ok('PUT', path, {})).toEqual(defaults);
    expect((await owner.call('GET', `/organizations/${id}`)).body).toMatchObject({ name: 'Renamed' });
  });

  it('are changed only by admins of the organization', async () => {
    const { owner, path } = await open();
    const stranger = await test.signIn('settings-stranger@example.com');
    expect(await stranger.call('GET', path)).toMatchObject({ status: 403 });
    const key = await owner.withApiKey('admin');
    expect(await key.call('PUT', path, {})).toMatchObject({ status: 403 });
  });

  it.each<[object, readonly string[]]>([
    [{ default_country: 'XX' }, ['/default_country']],
    [{ blocked_identities: [{ type: 'email' }] }, ['/blocked_identities/0']],
    [{ blocked_identities: [{ value: 'a' }, { pattern: 'a(?!b)' }] }, ['/blocked_identities/1/pattern']],
    [
      { blocked_identities: [{ pattern: '[' }, { pattern: 'x*' }] },
      ['/blocked_identities/0/pattern', '/blocked_identities/1/pattern'],
    ],
    [{ blocked_identities: [{ type: 'ucid', value: 'a' }] }, ['/blocked_identities/0/type']],
    [{ blocked_identities: Array(51).fill({ pattern: 'abc' }) }, ['/blocked_identities']],
    [{ identity_limits: [{ type: 'email', max: 3, drop_oldest: true }] }, ['/identity_limits/0/drop_oldest']],
    [
      {
        identity_limits: [
          { type: 'a', max: 3 },
          { type: 'a', max: 4 },
        ],
      },
      ['/identity_limits/1/type'],
    ],
  ])('are refused with %j', async (body, paths) => {
    const { owner, path } = await open();
    const { status, body: refusal } = await owner.call<Refusal>('PUT', path, body);
    expect({ status, paths: refusal.details.map((detail) => detail.path) }).toEqual({ status: 400, paths });
  });
});

describe('a write of a value that the organization blocks', () => {
  it('merged unrelated profiles, because only the general placeholders were refused: 400, in both forms of the body and by its hash', async () => {
    const { owner, path, client } = await open();
    const first = await client.write({ email: 'Till@shop.example', crm: 'c-1' });
    await owner.ok('PUT', path, {
      blocked_identities: [{ type: 'email', value: 'till@shop.example' }, { pattern: '^demo-[0-9]+$' }],
    });
    const message = 'is blocked by the organization';
    const sha256 = createHash('sha256').update('till@shop.example').digest('hex');
    for (const [body, at] of [
      [{ region: 'eu', ids: { crm: 'c-2', email: 'TILL@shop.example' } }, '/ids/email'],
      [{ region: 'eu', ids: { email_sha256_lowercase: sha256 } }, '/ids/email_sha256_lowercase'],
      [{ regions: ['eu'], search: { AdId: ['demo-17'], crm: ['c-2'] } }, '/search/AdId/0'],
    ] as const)
      expect(await client.call('', body)).toMatchObject(refused([{ path: at, message }]));
    expect(await client.search({ crm: ['c-2'] })).toEqual([]);
    // Profiles merged before can be found and split.
    expect(await client.search({ email: ['till@shop.example'] })).toEqual([first]);
    const unlinked = await client.call('/_unlink', { region: 'eu', ids: { email: ['till@shop.example'] } });
    expect(unlinked).toMatchObject({ status: 200, body: { ucids: [first.ucid] } });
    expect((await client.write({ email: 'other@shop.example', AdId: 'demo-x' })).ucid).not.toBe(first.ucid);
  });
});

describe('a value with more users than the bound', () => {
  it('merged all of them: the write beyond the bound is 400, names the value and is recorded once in the audit log', async () => {
    const { owner, path, client, id } = await open();
    await owner.ok('PUT', path, { max_user_ids_per_identity: 2 });
    const made = await client.write({ user_id: 'p1', cellphone: '+49 30 1234' });
    await client.write({ user_id: 'p2', cellphone: '+49 30 1234' });
    for (const user_id of ['p3', 'p4'])
      expect(
        await client.call('', { region: 'eu', ids: { user_id, cellphone: '+49 30 1234' } }),
      ).toMatchObject(
        refused([
          { path: '/ids/cellphone', message: 'would join more than 2 different user_ids and is set aside' },
        ]),
      );
    expect(await client.search({ user_id: ['p3', 'p4'] })).toEqual([]);
    await client.write({ user_id: 'p3', email: 'p3@example.com' });
    const { entries } = await test.dependencies.log.read(TOPIC.profileOperations, 0, 0, { maxBytes: 1e6 });
    const operations = entries
      .map(({ value }) => JSON.parse(value) as ProfileOperation)
      .filter(({ organization_id, name }) => organization_id === id && name === 'set_aside');
    expect(operations).toMatchObject([
      {
        identity_types: ['cellphone'],
        outcome: { ucids: [made.ucid], complete: true },
        by: expect.stringMatching(/^key:/),
      },
    ]);
    expect(JSON.stringify(operations)).not.toContain('1234');
  });

  it('is 400 beyond the bound that the organization set for its type', async () => {
    const { owner, path, client } = await open();
    await owner.ok('PUT', path, { identity_limits: [{ type: 'email', max: 1 }] });
    await client.write({ user_id: 'q', email: 'q1@example.com' });
    const more = await client.call<Refusal>('', {
      region: 'eu',
      ids: { user_id: 'q', email: 'q2@example.com' },
    });
    expect([more.status, more.body.details[0]?.path]).toEqual([400, '/ids']);
  });
});
