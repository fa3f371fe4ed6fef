import { describe, expect, it, onTestFinished } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { type ElasticsearchSettings, harness } from './elasticsearch-harness.ts';
import { Published } from './harness.ts';
import { People } from './people.ts';
import { profileStoreConformance } from './profile-store.conformance.ts';

describe.skipIf(!engines())('on the engines of the run', () => {
  profileStoreConformance(harness);

  it('what was merged before values had an origin is written on, and cannot be split off', async () => {
    const made = await harness.create(1e9);
    const store = await harness.open(made.settings, { publish: new Published().publish });
    onTestFinished(async () => {
      await store.close();
      await made.dispose();
    });
    const people = new People(store);
    const first = await people.write(['email:a@x']);
    const second = await people.write(['cookie:b'], { attributes: [{ path: ['d', 'n'], value: 1 }] });
    await people.write(['email:a@x', 'cookie:b']);
    const { url, prefix } = JSON.parse(made.settings) as ElasticsearchSettings;
    const document = `${url}/tributary-${prefix}profiles/_doc/p:${first.ucid}`;
    const { _source: source } = (await (await fetch(document)).json()) as { _source: { body: string } };
    expect(source.body).toContain('"from"');
    const replaced = await fetch(document, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...source, body: source.body.replace(/,"from":"[^"]*"/g, '') }),
    });
    expect(replaced.status).toBe(200);
    await people.write(['email:a@x'], { attributes: [{ path: ['d', 'm'], value: 2 }] });
    expect(await people.split(second.ucid)).toEqual({ kind: 'refused', reason: 'unknown_origin' });
    const third = await people.write(['cookie:c']);
    await people.write(['cookie:b', 'cookie:c']);
    expect(await people.split(third.ucid)).toMatchObject({
      kind: 'split',
      survivor: { linked: [second.ucid] },
    });
  });

  it('profiles of releases that wrote no scope beside them were not seen in their region', async () => {
    const made = await harness.create(1e9);
    const store = await harness.open(made.settings, { publish: new Published().publish });
    onTestFinished(async () => {
      await store.close();
      await made.dispose();
    });
    const people = new People(store);
    const { ucid } = await people.write(['email:a@x']);
    const { url, prefix } = JSON.parse(made.settings) as ElasticsearchSettings;
    const index = `${url}/tributary-${prefix}profiles`;
    const { org, region, ...source } = (await (await fetch(`${index}/_source/p:${ucid}`)).json()) as Readonly<
      Record<string, unknown>
    >;
    expect({ org, region }).toEqual(people.scope);
    const replaced = await fetch(`${index}/_doc/p:${ucid}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(source),
    });
    expect(replaced.status).toBe(200);
    expect(await store.holdsProfiles(people.scope)).toBe(true);
    expect(await store.holdsProfiles(people.in('us').scope)).toBe(false);
  });
});
