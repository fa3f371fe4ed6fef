import { NO_LOGGER } from '@tributary/core';
import { openElasticsearchProfileStore } from '@tributary/infra/adapters/profile-store/elasticsearch';
import { describe, expect, it, onTestFinished } from 'vitest';
import { removeIndices } from '../../../helpers/elasticsearch.ts';
import { engines } from '../../../helpers/engines.ts';
import { Published } from '../suite/harness.ts';
import { People } from '../suite/people.ts';
import { profileStoreConformance } from '../suite/profile-store.conformance.ts';
import { type ElasticsearchSettings, harness } from './harness.ts';

describe.skipIf(!engines())('on the engines of the run', () => {
  profileStoreConformance(harness);

  const opened = async () => {
    const made = await harness.create(1e9);
    const store = await harness.open(made.settings, { publish: new Published().publish });
    onTestFinished(async () => {
      await store.close();
      await made.dispose();
    });
    const { url, prefix } = JSON.parse(made.settings) as ElasticsearchSettings;
    return { store, people: new People(store), url, prefix };
  };

  it('a profile merged before values had an origin is still written, and cannot be split', async () => {
    const { people, url, prefix } = await opened();
    const first = await people.write(['email:a@x']);
    const second = await people.write(['cookie:b'], { attributes: [{ path: ['d', 'n'], value: 1 }] });
    await people.write(['email:a@x', 'cookie:b']);
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
    const { store, people, url, prefix } = await opened();
    const { ucid } = await people.write(['email:a@x']);
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

  it('an index with a write block answered the watch of engines: a write reports why it fails', async () => {
    const { people, url, prefix } = await opened();
    await people.write(['email:a@x']);
    const block = (on: boolean) =>
      fetch(`${url}/tributary-${prefix}profiles/_settings`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ 'index.blocks.write': on }),
      });
    expect((await block(true)).status).toBe(200);
    expect(await people.find('email:a@x')).toBeDefined();
    await expect(people.write(['email:b@x'])).rejects.toThrow(
      'Elasticsearch answered 403 (cluster_block_exception)',
    );
    expect((await block(false)).status).toBe(200);
    await people.write(['email:b@x']);
  });

  it('an index of profiles that was deleted came back empty, without an error', async () => {
    const made = await harness.create(1e9);
    const { url, prefix, retentionMs } = JSON.parse(made.settings) as ElasticsearchSettings;
    const errors: string[] = [];
    const store = await openElasticsearchProfileStore({
      access: { urls: [url] },
      prefix,
      retentionMs,
      clock: Date.now,
      publish: new Published().publish,
      logger: { ...NO_LOGGER, error: (_fields, message) => errors.push(message) },
    });
    onTestFinished(async () => {
      await store.close();
      await made.dispose();
    });
    const people = new People(store);
    await people.write(['email:a@x']);
    expect(errors).toEqual([]);
    await removeIndices(url, prefix);
    await expect.poll(() => people.find('email:a@x').catch(String)).toBeUndefined();
    await people.write(['email:b@x']);
    expect(errors).toEqual([
      expect.stringMatching(/^the index of the profiles was deleted .* restore a snapshot$/),
    ]);
  });
});
