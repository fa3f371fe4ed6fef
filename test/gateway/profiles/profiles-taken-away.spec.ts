import {
  type AuditedCalls,
  PartialDeletion,
  type ProfileOperation,
  type RecordProfileOperation,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { refusedFor, type TestGateway } from '../../helpers/gateway.ts';
import { makeClientKey } from '../../helpers/profile-client.ts';
import { awayProfiles, openProfileGateway as open } from '../../helpers/profile-gateway.ts';

describe('a profile', () => {
  it('could not be unlinked from an identity', async () => {
    const { owner, organization, client } = await open();
    const { ucid } = await client.write({ email: 'desk@example.com', AdId: 'un-1' });
    const unlink = (body: object, caller = client) =>
      caller.call<unknown>('/_unlink', { region: 'eu', ...body });
    const ids = { email: [' Desk@example.com'], AdId: ['un-2'] };
    const done = await unlink({ ids });
    expect(done).toMatchObject({ status: 200, body: { ucids: [ucid], identitiesNotFound: ['un-2'] } });
    expect(
      (await client.call('/_search', { regions: ['eu'], search: { email: ['desk@example.com'] } })).body,
    ).toEqual([]);
    expect(await unlink({ ids })).toMatchObject({
      status: 200,
      body: { ucids: [], identitiesNotFound: [' Desk@example.com', 'un-2'] },
    });
    expect(await unlink({ ids, ucid })).toMatchObject({ status: 200, body: { ucids: [ucid] } });
    await client.write({ AdId: 'un-3' });
    await client.write({ AdId: 'un-4' });
    for (const [body, path] of [
      [{ ids: { AdId: ['un-4', 'other', 'un-3'] } }, '/ids/AdId/2'],
      [{ ids: { AdId: ['un-3'] }, ucid }, '/ids/AdId/0'],
      [{ ids: {} }, '/ids'],
      [{ ids: { linkedUcid: ['x'] } }, '/ids/linkedUcid'],
      [{ ids: { ucid: [ucid] } }, '/ids/ucid'],
      [{ ids, ucid: organization.id }, '/ucid'],
      [{ ids, region: 'mars' }, '/region'],
    ] as const)
      expect(await unlink(body)).toMatchObject(refusedFor(path));
    const { key } = await makeClientKey(owner, organization.id, ['profile.read', 'profile.delete']);
    expect((await unlink({ ids }, client.withKey(key, 'profile.read,profile.delete'))).status).toBe(403);
    expect((await unlink({ ids }, client.naming(1_000_000))).status).toBe(403);
  });

  it('kept an identity because of an impossible value beside it, which is not found', async () => {
    const { client } = await open();
    const { ucid } = await client.write({ email: 'kiosk@example.com', AdId: 'k' });
    const unlink = (body: object) => client.call<unknown>('/_unlink', { region: 'eu', ...body });
    const impossible = ['Unknown', 'x'.repeat(513)];
    expect(await unlink({ ids: { email: [...impossible, 'kiosk@example.com'] } })).toMatchObject({
      status: 200,
      body: { ucids: [ucid], identitiesNotFound: impossible },
    });
    for (const body of [{ ids: { email: impossible } }, { ids: { email: impossible }, ucid }])
      expect(await unlink(body)).toMatchObject({
        status: 200,
        body: { ucids: [], identitiesNotFound: impossible },
      });
  });

  it('could not be separated again after a wrong merge', async () => {
    const { owner, organization, client } = await open();
    const ann = await client.write(
      { email: 'ann@m.example' },
      { upsert: { profile: { home: { city: 'Bari' } } } },
    );
    const bob = await client.write(
      { AdId: 'ad-bob' },
      {
        upsert: {
          profile: { 'a/b': { '~': 1 } },
          mkt_preferences: { sms: 'no' },
          consent: { ads: 'no', terms: 'no' },
        },
      },
    );
    await client.write(
      { email: 'ann@m.example', AdId: 'ad-bob', cellphone: '+39000' },
      { upsert: { profile: { late: { 'x/y': 1 } }, consent: { terms: 'yes' } } },
    );
    const split = (body: object, caller = client) =>
      caller.call<unknown>('/_split', { region: 'eu', ucid: bob.ucid, ...body });
    const { key } = await makeClientKey(owner, organization.id, ['profile.read', 'profile.delete']);
    expect((await split({}, client.withKey(key, 'profile.read,profile.delete'))).status).toBe(403);
    expect((await split({}, client.naming(1_000_000))).status).toBe(403);
    for (const [body, path] of [
      [{ ucid: 'bob' }, '/ucid'],
      [{ ucid: organization.id }, '/ucid'],
      [{ region: 'mars' }, '/region'],
      [{ ucid: undefined }, '/ucid'],
      [{ ids: {} }, '/ids'],
    ] as const)
      expect(await split(body)).toMatchObject(refusedFor(path));
    expect(await split({ ucid: ann.ucid })).toMatchObject({
      status: 409,
      body: { error: 'conflict', reason: 'not_merged', causes: [] },
    });
    expect(await split({ ucid: bob.ucid.toUpperCase() })).toMatchObject({
      status: 200,
      body: {
        ucid: bob.ucid,
        survivor: ann.ucid,
        kept: ['/profile/late/x~1y', '/consent/terms', '/ids/cellphone'],
        lost: [],
      },
    });
    expect(await split({})).toMatchObject({ status: 409, body: { reason: 'not_merged' } });
    const [found] = await client.search({ AdId: ['ad-bob'] });
    expect(found).toMatchObject({
      ucid: bob.ucid,
      profile: { 'a/b': { '~': 1 } },
      ids: { AdId: [{ AdId: 'ad-bob' }] },
    });
    expect(found).toMatchObject({
      mkt_preferences: { sms: { value: 'no' } },
      consent: { ads: { value: 'no' }, terms: { value: 'no' } },
    });
    const [left] = await client.search({ email: ['ann@m.example'] });
    expect(Object.keys(left?.profile ?? {}).sort()).toEqual(['home', 'late']);
    expect(Object.keys(left?.ids ?? {}).sort()).toEqual(['cellphone', 'email']);

    await client.write({ email: 'ann@m.example', AdId: 'ad-bob' });
    expect((await client.call('/_unlink', { region: 'eu', ids: { AdId: ['ad-bob'] } })).body).toEqual({
      ucids: [ann.ucid, bob.ucid],
      identitiesNotFound: [],
      kept: [],
      lost: [],
    });
    await client.write({ email: 'ann@m.example', AdId: 'ad-bob' });
    const writer = await makeClientKey(owner, organization.id, ['profile.write']);
    expect((await split({}, client.withKey(writer.key, 'profile.write'))).body).toEqual({
      ucid: bob.ucid,
      survivor: ann.ucid,
    });
  });
});

describe('the audit log of deletions', () => {
  const recordsOf = async (gateway: TestGateway) => {
    const { entries } = await gateway.dependencies.log.read(TOPIC.profileOperations, 0, 0);
    return entries
      .map(({ value }) => JSON.parse(value) as ProfileOperation | AuditedCalls)
      .filter((record): record is ProfileOperation => !('kind' in record));
  };

  it('lacked the actor of a deletion: its start and end are recorded with counts and ucids, without values', async () => {
    const { gateway, organization, client } = await open();
    const made = [
      await client.write({ email: 'ann@secret.example' }),
      await client.write({ email: 'ben@secret.example' }),
    ];
    await client.delete({ email: made.map((_, n) => `${['ann', 'ben'][n]}@secret.example`).concat('none') });
    const [begun, ended, ...others] = await recordsOf(gateway);
    expect(others).toEqual([]);
    expect(begun).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'deleted',
      organization_id: organization.id,
      regions: ['eu'],
      identity_types: ['email'],
      requested: 3,
      at: expect.stringMatching(/Z$/),
      by: `key:${organization.keyId}`,
      from: { address: '127.0.0.1', request_id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    });
    const ucids = made.map(({ ucid }) => ucid);
    expect(ended).toEqual({
      ...begun,
      outcome: { ucids: expect.arrayContaining(ucids), not_found: 1, complete: true },
    });
    expect(JSON.stringify([begun, ended])).not.toContain('secret');
  });

  it('lacked the actor of an unlinked identity', async () => {
    const { gateway, client } = await open();
    const { ucid } = await client.write({ email: 'cy@secret.example', AdId: 'ad-cy' });
    const body = { region: 'eu', ids: { AdId: ['ad-cy', 'ad-none'] } };
    expect(await client.call('/_unlink', body)).toMatchObject({
      status: 200,
      body: { ucids: [ucid], identitiesNotFound: ['ad-none'] },
    });
    expect(await recordsOf(gateway)).toMatchObject([
      { name: 'unlinked', identity_types: ['AdId'], requested: 2 },
      { name: 'unlinked', outcome: { ucids: [ucid], not_found: 1, complete: true } },
    ]);
  });

  it('lacked the actor of a split', async () => {
    const { gateway, client } = await open();
    const [one, other] = [await client.write({ AdId: 's-1' }), await client.write({ AdId: 's-2' })];
    await client.write({ AdId: 's-1', email: 'di@secret.example' }, { ucid: other.ucid });
    const body = { region: 'eu', ucid: other.ucid };
    expect((await client.call('/_split', body)).status).toBe(200);
    expect((await client.call('/_split', body)).status).toBe(409);
    const records = await recordsOf(gateway);
    expect(records).toMatchObject([
      { name: 'split', identity_types: ['ucid'], requested: 1 },
      { name: 'split', outcome: { ucids: [other.ucid, one.ucid], not_found: 0, complete: true } },
      { name: 'split' },
      { name: 'split', outcome: { ucids: [], not_found: 0, complete: true } },
    ]);
    expect(records[1]?.id).toBe(records[0]?.id);
    expect(JSON.stringify(records)).not.toContain('secret');
  });

  it('lost a deletion whose process died: no profile is deleted before its start is recorded', async () => {
    const recordProfileOperation = () => Promise.reject(new Unavailable('the log is away'));
    const { client } = await open({ dependencies: { recordProfileOperation } });
    const { ucid } = await client.write({ AdId: 'kept' });
    expect((await client.call('/_delete', { region: 'eu', ids: { AdId: ['kept'] } })).status).toBe(503);
    expect(await client.search({ AdId: ['kept'] })).toMatchObject([{ ucid }]);
  });

  it('causes a 503 with the deleted profiles if it cannot record the end, also if the engine stops answering', async () => {
    const records: ProfileOperation[] = [];
    const recordProfileOperation: RecordProfileOperation = async (operation) => {
      if ('kind' in operation) return;
      records.push(operation);
      if (operation.outcome !== undefined) throw new Unavailable('the log is away');
    };
    const { client } = await open({ dependencies: { recordProfileOperation } });
    const { ucid } = await client.write({ AdId: 'gone' });
    const body = { region: 'eu', ids: { AdId: ['gone', 'null'] } };
    expect(await client.call('/_delete', body)).toMatchObject({
      status: 503,
      body: { deletedProfiles: [ucid], profilesNotFound: ['null'] },
    });
    const inPart = () => Promise.reject(new PartialDeletion('away', { deleted: ['some'], notFound: [] }));
    const profiles = awayProfiles({ delete: inPart });
    const other = await open({ dependencies: { recordProfileOperation, profiles } });
    expect((await other.client.call('/_delete', body)).body).toMatchObject({ deletedProfiles: ['some'] });
    expect(records.map(({ outcome }) => outcome)).toEqual([
      undefined,
      { ucids: [ucid], not_found: 1, complete: true },
      undefined,
      { ucids: ['some'], not_found: 1, complete: false },
    ]);
  });
});
