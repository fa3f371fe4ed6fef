import { NO_LOGGER, type Profile, type ProfileStore } from '@tributary/core';
import {
  ElasticsearchConnection,
  ElasticsearchDocuments,
  openElasticsearchProfileStore,
} from '@tributary/infra';
import { ProfileImport } from '@tributary/infra/adapters/profile-store/elasticsearch';
import { describeMachine, enginesOf } from '../engines/index.ts';
import { type BareDocuments, profileRows } from './profile-rows.ts';
import type { BenchRow } from './table.ts';

export interface ElasticsearchProfileRowsOptions {
  readonly stored: number;
  readonly rounds: number;
  readonly seconds: number;
}

const SEARCHED_AT_ONCE = 500;

/**
 * The rows of profiles on Elasticsearch, against bare reads and compare-and-sets of the same documents
 * through the same kind of shared calls. The rows start their own node.
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
  const filling = await ProfileImport.open({
    access,
    prefix: 'bench.',
    shards: 1,
    logger: NO_LOGGER,
    timeoutMs: 10_000,
    importId: 'bench',
  });
  try {
    const documents = new ElasticsearchDocuments(connection, {
      alias: 'tributary-bench.profiles',
      shards: 1,
    });
    const ids: string[] = [];
    const bare = bareDocuments(documents, ids);
    const fill = async (some: readonly Profile[]) => {
      for (const { ucid } of some) ids.push(`p:${ucid}`);
      await filling.write(
        some.map((profile) => ({ kind: 'live', profile, text: JSON.stringify(profile), deletions: {} })),
        new Map(),
      );
      await warmUp(store, some);
    };
    return await profileRows({
      ...options,
      engine: 'on Elasticsearch',
      enginePid: engine.pid,
      store,
      bare,
      fill,
    });
  } finally {
    await store.close();
    await filling.close();
    await connection.close();
    await engine.stop();
  }
}

/** As in a process that has run for a while: most locations of identities are cached. */
async function warmUp(store: ProfileStore, profiles: readonly Profile[]): Promise<void> {
  for (let at = 0; at < profiles.length; at += SEARCHED_AT_ONCE) {
    const identities = profiles.slice(at, at + SEARCHED_AT_ONCE).map((profile) => profile.identities);
    await store.search({ org: 1, regions: ['eu'], identities: identities.flat(), ucids: [] });
  }
}

/** The documents of the profiles: read, parsed, and written back as they are. */
function bareDocuments(documents: ElasticsearchDocuments, ids: readonly string[]): BareDocuments {
  const read = async (id: string) => {
    const [stored] = await documents.read([id]);
    if (stored === undefined) throw new Error(`document ${id} is missing`);
    return { ...stored, parsed: JSON.parse(stored.source.body) as unknown };
  };
  const idOf = (n: number) => ids[n] ?? '';
  return {
    async read(n) {
      await read(idOf(n));
    },
    async update(n) {
      const { version, source, parsed } = await read(idOf(n));
      // A conflict with another caller took the same work.
      await documents.write([
        { id: idOf(n), expected: version, source: { ...source, body: JSON.stringify(parsed) } },
      ]);
    },
  };
}
