import { Unavailable } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type ElasticsearchGuard, guardElasticsearch } from '../helpers/elasticsearch-guard.ts';
import { engines } from '../helpers/engines.ts';
import { harness as history } from './history/elasticsearch/harness.ts';
import { historyConformance } from './history/suite/history.conformance.ts';
import { harness as profiles } from './profile-store/elasticsearch/harness.ts';
import { Published, RETENTION_MS } from './profile-store/suite/harness.ts';
import { People } from './profile-store/suite/people.ts';
import { profileStoreConformance } from './profile-store/suite/profile-store.conformance.ts';

/** The prefix of the index names of all tests; other users' indices never begin with it. */
const OURS = 'tributary-t';

/**
 * docs/operations/rights.md lists the privileges. Elasticsearch's own authorization is not part of the packages in a
 * registry.
 */
describe.skipIf(engines() === undefined)('an Elasticsearch that grants rights one by one', () => {
  let guard: ElasticsearchGuard;
  beforeAll(async () => {
    guard = await guardElasticsearch(engines()?.elasticsearchUrl ?? '', OURS);
  });
  afterAll(() => guard.close());

  /** The installation of a harness, accessed with the documented rights. */
  const guarded = <I extends { readonly settings: string }>(made: I): I => ({
    ...made,
    settings: JSON.stringify({ ...JSON.parse(made.settings), url: guard.url }),
  });

  it('allows profile writes, searches and deletions with the documented ones, without rights on the cluster', async () => {
    const installation = guarded(await profiles.create(RETENTION_MS));
    onTestFinished(() => installation.dispose());
    const store = await profiles.open(installation.settings, { publish: new Published().publish });
    onTestFinished(() => store.close());
    const people = new People(store);
    const made = await people.write(['email:a@x']);
    expect(await people.find('email:a@x')).toEqual(made);
    await people.delete(['email:a@x']);
    expect(await people.find('email:a@x')).toBeUndefined();
    expect(guard.refused).toEqual(['GET /_cluster/health']);
  });

  it('states the missing right', async () => {
    const others = await guardElasticsearch(engines()?.elasticsearchUrl ?? '', 'of-others');
    onTestFinished(() => others.close());
    const installation = await profiles.create(RETENTION_MS);
    onTestFinished(() => installation.dispose());
    const settings = JSON.stringify({ ...JSON.parse(installation.settings), url: others.url });
    const store = await profiles.open(settings, { publish: new Published().publish });
    onTestFinished(() => store.close());
    const writing = new People(store).write(['email:a@x']);
    await expect(writing).rejects.toThrow(Unavailable);
    await expect(writing).rejects.toThrow('security_exception');
  });

  if (process.env.TRIBUTARY_TEST_LONG) {
    profileStoreConformance({
      ...profiles,
      create: async (retentionMs) => guarded(await profiles.create(retentionMs)),
    });
    historyConformance({ ...history, create: async () => guarded(await history.create()) });
  }
});
