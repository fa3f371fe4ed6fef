import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { openProfiles, sendInto } from '../../helpers/profile-client.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

/** A fresh organization. */
async function open() {
  const owner = await gateway.openWorkspace();
  const { id, orgId, client } = await openProfiles(owner, owner.workspaceId, sendInto(gateway.app));
  /** As written by a release that identified identities by their spelling. */
  const stored = async (type: string, value: string) => {
    const outcome = await gateway.dependencies.profiles.upsert({
      org: orgId,
      region: 'eu',
      identities: [{ type, value }],
      attributes: [],
      preferences: [],
      consents: [],
      linking: 'merge',
    });
    if (outcome.kind === 'refused') throw new Error(outcome.reason);
    return outcome.profile.ucid;
  };
  const settings = `/organizations/${id}/profile-settings`;
  return { owner, client, stored, settings };
}

const EPOCH_MS = expect.stringMatching(/^\d{13}$/);

describe('one address or number in several spellings', () => {
  it('created a profile for each, of which a deletion found only one', async () => {
    const { client } = await open();
    const record = await client.write({ email: 'J\u00fcrgen@M\u00fcller.example' });
    const canonical = 'j\u00fcrgen@xn--mller-kva.example';
    expect(record.ids.email).toEqual([{ email: canonical, _ts: EPOCH_MS }]);
    const spellings = [
      'ju\u0308rgen@mu\u0308ller.example',
      'J\u00dcRGEN@XN--MLLER-KVA.EXAMPLE',
      'j\u00fcrgen\u200b@m\u00fcller.example.',
      'mailto:j%C3%BCrgen@xn--mller-kva.example?subject=Hallo',
      'J. M\u00fcller <j\u00fcrgen@m\u00fcller.example>',
    ];
    for (const email of spellings) expect((await client.write({ email })).ucid).toBe(record.ucid);
    const digest = createHash('sha256').update(canonical).digest('hex');
    expect(await client.search({ email_sha256_lowercase: [digest] })).toHaveLength(1);
    const nobody = 'mailto:Nobody@M\u00dcLLER.example';
    const { deletedProfiles, profilesNotFound } = await client.delete({
      email: [...spellings, nobody, 'nobody@xn--mller-kva.example'],
    });
    expect(deletedProfiles).toEqual([record.ucid]);
    expect(profilesNotFound).toEqual([nobody, 'nobody@xn--mller-kva.example']);
    expect(await client.search({ email: [canonical] })).toEqual([]);
  });

  it.each([
    ['ana@ca\u00f1\u00f3n.example', 'ana@xn--can-8mak.example'],
    ['mailto:ana@shop.example', 'ana@shop.example'],
    ['ana@shop.example.', 'ana@shop.example'],
    ['<ana@shop.example>', 'ana@shop.example'],
  ])('hid %j, stored by an earlier release, from the search and deletion of %j', async (before, now) => {
    const { client, stored } = await open();
    const ucid = await stored('email', before);
    expect((await client.search({ email: [now, 'ana@else.example'] })).map((found) => found.ucid)).toEqual([
      ucid,
    ]);
    // Meanwhile another profile was created under the normalised spelling.
    const since = await stored('email', now);
    expect((await client.delete({ email: [now] })).deletedProfiles.toSorted()).toEqual([ucid, since].sort());
    expect(await client.search({ email: [before] })).toEqual([]);
  });

  it('showed an address twice in the record of a profile with an older spelling', async () => {
    const { client, stored } = await open();
    const ucid = await stored('email', 'ana@ca\u00f1\u00f3n.example');
    const record = await client.write({ email: 'Ana@Ca\u00f1\u00f3n.example' });
    expect(record).toMatchObject({
      ucid,
      ids: { email: [{ email: 'ana@xn--can-8mak.example', _ts: EPOCH_MS }] },
    });
    expect(Object.keys(record.ids)).toEqual(['email']);
    expect(await client.search({ email: ['ana@ca\u00f1\u00f3n.example'] })).toEqual([record]);
  });

  it('kept an address in a profile that was unlinked in another spelling', async () => {
    const { client, stored } = await open();
    const ucid = await stored('email', 'ana@ca\u00f1\u00f3n.example');
    const answer = await client.call('/_unlink', {
      region: 'eu',
      ids: { email: ['Ana@CA\u00d1\u00d3N.example', 'ana@xn--can-8mak.example', 'eve@shop.example'] },
    });
    expect(answer).toMatchObject({
      status: 200,
      body: { ucids: [ucid], identitiesNotFound: ['eve@shop.example'] },
    });
    expect(await client.search({ email: ['ana@ca\u00f1\u00f3n.example'] })).toEqual([]);
  });

  it('made several profiles of a telephone number, and still do without a country', async () => {
    const { client, owner, settings } = await open();
    const record = await client.write({ cellphone: '+31 6 1234 5678' });
    expect(record.ids.cellphone).toEqual([{ cellphone: '+31612345678', _ts: EPOCH_MS }]);
    expect(await client.search({ cellphone: ['0031-6-12345678'] })).toEqual([record]);
    const local = await client.write({ cellphone: '06-12345678' });
    expect(local).toMatchObject({ ids: { cellphone: [{ cellphone: '06-12345678' }] } });
    expect(local.ucid).not.toBe(record.ucid);

    expect(await owner.ok('PUT', settings, { default_country: 'NL' })).toMatchObject({
      default_country: 'NL',
    });
    const joined = await client.write({ cellphone: '06-12345678' });
    expect(joined).toMatchObject({ ucid: record.ucid });
    expect(joined.ids).toMatchObject({
      cellphone: [{ cellphone: '+31612345678' }],
      linkedUcid: [local.ucid],
    });
    expect(await client.search({ cellphone: ['06 1234 5678'] })).toEqual([joined]);
    const { profilesNotFound } = await client.delete({ cellphone: ['06 1234 5678', '06 8765 4321'] });
    expect(profilesNotFound).toEqual(['06 8765 4321']);
  });

  it('hid a stored telephone number from its deletion', async () => {
    const { client, stored, owner, settings } = await open();
    await owner.ok('PUT', settings, { default_country: 'FR' });
    const ucids = [
      await stored('cellphone', '+33 6 12 34 56 78'),
      await stored('cellphone', '06 12 34 56 78'),
      await stored('cellphone', '0033612345678'),
    ];
    expect(await client.search({ cellphone: ['+33612345678'] })).toHaveLength(3);
    expect((await client.delete({ cellphone: ['+33612345678'] })).deletedProfiles.toSorted()).toEqual(
      ucids.sort(),
    );
  });
});
