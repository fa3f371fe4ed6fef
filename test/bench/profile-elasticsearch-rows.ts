import { NO_LOGGER, type Profile, type ProfileStore } from '@tributary/core';
import {
  describeMachine,
  documentsOf,
  ElasticsearchConnection,
  enginesOf,
  NodeDocuments,
  openElasticsearchProfileStore,
} from '@tributary/infra';
import { type BareDocuments, profileRows, sampleProfile } from './profile-rows.ts';
import type { BenchRow } from './table.ts';

export interface ElasticsearchProfileRowsOptions {
  readonly stored: number;
  readonly rounds: number;
  readonly seconds: number;
}

const FILLING = 2_000;
const SEARCHED_AT_ONCE = 500;

/**
 * The rows of profiles on Elasticsearch: against reads and compare-and-sets of one document through the same shared
 * calls, in an index of the same kind. The node is the rows' own.
 */
export async function elasticsearchProfileRows(
  options: ElasticsearchProfileRowsOptions,
): Promise<readonly BenchRow[]> {
  const engine = await enginesOf(describeMachine(process.env)).elasticsearch.start();
  const access = { urls: [engine.url] };
  const connection = await ElasticsearchConnection.open({ access, logger: NO_LOGGER });
  const store = await openElasticsearchProfileStore({
    access,
    prefix: 'bench.',
    clock: Date.now,
    retentionMs: 3_600_000,
    publish: async () => {},
    logger: NO_LOGGER,
  });
  try {
    const documents = new NodeDocuments(connection, { alias: 'bare', shards: 1 });
    const bare = await bareDocuments(documents, await sampleProfile(store), options.stored);
    const profiles = new NodeDocuments(connection, { alias: 'tributary-bench.profiles', shards: 1 });
    const fill = async (some: readonly Profile[]) => {
      const documents = some.flatMap(documentsOf);
      await profiles.write(documents.map((one) => ({ ...one, expected: 'absent' })));
      await warmUp(store, some);
    };
    return await profileRows({ ...options, engine: 'on Elasticsearch', store, bare, fill });
  } finally {
    await store.close();
    await connection.close();
    await engine.stop();
  }
}

/** As in a process that has run for a while: it knows where most identities lead. */
async function warmUp(store: ProfileStore, profiles: readonly Profile[]): Promise<void> {
  for (let at = 0; at < profiles.length; at += SEARCHED_AT_ONCE) {
    const identities = profiles.slice(at, at + SEARCHED_AT_ONCE).map((profile) => profile.identities);
    await store.search({ org: 1, regions: ['eu'], identities: identities.flat(), ucids: [] });
  }
}

/** The same profile as often: read, parsed, changed and written back. */
async function bareDocuments(
  documents: NodeDocuments,
  sample: Profile,
  count: number,
): Promise<BareDocuments> {
  const sourceOf = (profile: Profile) => ({
    state: 'live' as const,
    updated_ts: profile.updated_ts,
    body: JSON.stringify(profile),
  });
  const idOf = (n: number) => `p:${n}`;
  for (let n = 0; n < count; n += FILLING) {
    const ids = Array.from({ length: Math.min(FILLING, count - n) }, (_, index) => idOf(n + index));
    await documents.write(ids.map((id) => ({ id, expected: 'absent', source: sourceOf(sample) })));
  }
  const read = async (n: number) => {
    const [stored] = await documents.read([idOf(n)]);
    if (stored === undefined) throw new Error(`document ${n} is missing`);
    return { version: stored.version, profile: JSON.parse(stored.source.body) as Profile };
  };
  return {
    async read(n) {
      await read(n);
    },
    async update(n) {
      const { version, profile } = await read(n);
      const changed = { ...profile, version: profile.version + 1 };
      // Where another caller was faster, the work was the same.
      await documents.write([{ id: idOf(n), expected: version, source: sourceOf(changed) }]);
    },
  };
}
