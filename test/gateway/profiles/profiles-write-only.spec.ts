import type { ProfileRecord } from '@tributary/core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import {
  makeClientKey,
  openProfiles,
  type ProfileClient,
  type ProfileOrganization,
  sendInto,
} from '../../helpers/profile-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const WRITE = 'profile.write';

const test = await suiteGateway();
let owner: Client;
let organization: ProfileOrganization;
let full: ProfileClient;
let writeOnly: ProfileClient;
let people = 0;
beforeAll(async () => {
  owner = await test.openWorkspace();
  organization = await openProfiles(owner, owner.workspaceId, sendInto(test.app));
  full = organization.client;
  const { key } = await makeClientKey(owner, organization.id, [WRITE]);
  writeOnly = full.withKey(key, WRITE);
});

const SECRET = 'only-for-readers';

/** A person with a value of every kind that requires the read scope. */
async function somebody(): Promise<{
  readonly ids: { readonly AdId: string };
  readonly record: ProfileRecord;
}> {
  const ids = { AdId: `device-${++people}` };
  const record = await full.write(ids, {
    upsert: {
      profile: { health: { note: SECRET, city: SECRET }, tier: SECRET },
      mkt_preferences: { newsletter: SECRET },
      consent: { ads: SECRET },
    },
  });
  return { ids, record };
}

/** The record without any value; times change with every write. */
function nothingOf({ ucid, region, created_ts, ids }: ProfileRecord) {
  const empty = { profile: {}, mkt_preferences: {}, consent: {} };
  const named = Object.fromEntries(Object.keys(ids).map((namespace) => [namespace, expect.any(Array)]));
  return { ucid, region, created_ts, updated_ts: expect.any(Number), ids: named, ...empty };
}

describe('a write without profile.read', () => {
  it('returns only ids, ucid, region and times if it is empty', async () => {
    const { ids, record } = await somebody();
    for (const fields of [
      {},
      { upsert: {} },
      { upsert: { profile: {}, mkt_preferences: {}, consent: {} } },
    ]) {
      const shown = await writeOnly.write(ids, fields);
      expect(shown).toEqual(nothingOf(record));
    }
  });

  it('returns no more by ucid than by an identity', async () => {
    const { record } = await somebody();
    const answer = await writeOnly.call<readonly ProfileRecord[]>('', { region: 'eu', ucid: record.ucid });
    expect(answer.body).toEqual([nothingOf(record)]);
  });

  it('returns its own values, and no stored ones of the same category', async () => {
    const { ids } = await somebody();
    const shown = await writeOnly.write(ids, {
      upsert: {
        profile: { health: { city: 'Rome' } },
        mkt_preferences: { sms: 'no' },
        consent: { mail: 'yes' },
      },
    });
    expect(shown).toMatchObject({
      profile: { health: { city: 'Rome', _ts: expect.stringMatching(/^\d+$/) } },
      mkt_preferences: { sms: { type: 'sms', value: 'no' } },
      consent: { mail: { value: 'yes' } },
    });
    expect(JSON.stringify(shown)).not.toContain(SECRET);
    const [stored] = await full.search({ AdId: [ids.AdId] });
    expect(stored?.profile).toMatchObject({ health: { city: 'Rome', note: SECRET }, tier: SECRET });
  });

  it.each([
    ['an old time', { health: { _ts: '1', note: 'a guess', city: 'a guess' } }],
    ['an old time and the very value', { health: { _ts: 1, note: SECRET, city: 'a guess' } }],
    ['an empty category of an old time', { health: { _ts: '1' } }],
  ])('reveals neither the stored value nor whether it was guessed if it loses by %s', async (_, profile) => {
    const { ids } = await somebody();
    const nobody = { AdId: `device-${++people}` };
    const [lost, won] = [ids, nobody].map((whom) => writeOnly.write(whom, { upsert: { profile } }));
    expect((await lost)?.profile).toEqual((await won)?.profile);
    expect((await full.search({ AdId: [ids.AdId] }))[0]?.profile).toMatchObject({ health: { note: SECRET } });
  });

  it('returns the values of neither profile if it merges two', async () => {
    const one = await somebody();
    const other = { email: `person-${++people}@example.com` };
    await full.write(other, { upsert: { profile: { home: { street: SECRET } } } });
    const shown = await writeOnly.write({ ...one.ids, ...other });
    expect(shown.ids).toMatchObject({ AdId: [expect.anything()], email: [expect.anything()] });
    expect(shown).toMatchObject({ profile: {}, mkt_preferences: {}, consent: {} });
  });

  it('returns no more in the alternative form of the body', async () => {
    const { ids } = await somebody();
    const body = { regions: ['eu'], search: { AdId: [ids.AdId] }, upsert: { consent: { mail: 'yes' } } };
    const { body: shown } = await writeOnly.call<readonly ProfileRecord[]>('', body);
    expect(shown).toMatchObject([{ profile: {}, consent: { mail: { value: 'yes' } } }]);
    expect(JSON.stringify(shown)).not.toContain(SECRET);
  });
});

describe('profile.read is effective for a write', () => {
  const shows = async (client: ProfileClient, region = 'eu') => {
    const { ids } = await somebody();
    const write = { region, ids: region === 'eu' ? ids : { AdId: 'elsewhere' } };
    if (region !== 'eu') await full.call('', { ...write, upsert: { profile: { tier: SECRET } } });
    const { status, body } = await client.call<readonly ProfileRecord[]>('', write);
    expect(status).toBe(200);
    return JSON.stringify(body).includes(SECRET);
  };

  it('if both the key and the header have it', async () => {
    const both = await makeClientKey(owner, organization.id, [WRITE, 'profile.read']);
    const alone = await makeClientKey(owner, organization.id, [WRITE, 'profile.delete']);
    expect(await shows(full.withKey(both.key, `${WRITE},profile.read`))).toBe(true);
    expect(await shows(full.withKey(both.key, WRITE))).toBe(false);
    expect(await shows(full.withKey(alone.key, `${WRITE},profile.read,profile.delete`))).toBe(false);
  });

  it('if the person’s role in the region and the header have it', async () => {
    await owner.ok('POST', `/workspaces/${owner.workspaceId}/members`, {
      email: 'editor@example.com',
      role: 'editor',
    });
    const token = String((await test.signIn('editor@example.com')).token);
    expect(await shows(full.withToken(token))).toBe(true);
    expect(await shows(full.withToken(token, WRITE))).toBe(false);
    const ofOwner = full.withToken(String(owner.token), `${WRITE},profile.delete`);
    expect(await shows(ofOwner)).toBe(false);
    expect(await shows(ofOwner, 'us')).toBe(false);
    expect(await shows(full.withToken(String(owner.token)), 'us')).toBe(true);
  });
});
