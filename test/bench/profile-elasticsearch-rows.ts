import { NO_LOGGER, type Profile } from '@tributary/core';
import {
  describeMachine,
  documentsOf,
  ElasticsearchConnection,
  enginesOf,
  NodeDocuments,
  openElasticsearchProfileStore,
} from '@tributary/infra';
import { type BareDocuments, profileRows } from './profile-rows.ts';
import type { BenchRow } from './table.ts';

export interface ElasticsearchProfileRowsOptions {
  readonly stored: number;
  readonly rounds: number;
  readonly seconds: number;
}

/** About what a profile of the bench weighs as it is stored. */
const BODY_CHARACTERS = 1_000;
const FILLING = 2_000;

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
    const bare = await bareDocuments(
      new NodeDocuments(connection, { alias: 'bare', shards: 1 }),
      options.stored,
    );
    const profiles = new NodeDocuments(connection, { alias: 'tributary-bench.profiles', shards: 1 });
    const fill = async (some: readonly Profile[]) => {
      const documents = some.flatMap(documentsOf);
      await profiles.write(documents.map((one) => ({ ...one, expected: 'absent' })));
    };
    return await profileRows({ ...options, engine: 'on Elasticsearch', store, bare, fill });
  } finally {
    await store.close();
    await connection.close();
    await engine.stop();
  }
}

async function bareDocuments(documents: NodeDocuments, count: number): Promise<BareDocuments> {
  let updates = 0;
  const source = () => ({
    state: 'live' as const,
    updated_ts: Date.now(),
    body: `${updates++}`.padEnd(BODY_CHARACTERS, '"{,}x'),
  });
  const idOf = (n: number) => `p:${n}`;
  for (let n = 0; n < count; n += FILLING) {
    const ids = Array.from({ length: Math.min(FILLING, count - n) }, (_, index) => idOf(n + index));
    await documents.write(ids.map((id) => ({ id, expected: 'absent', source: source() })));
  }
  const read = async (n: number) => {
    const [stored] = await documents.read([idOf(n)]);
    if (stored === undefined) throw new Error(`document ${n} is missing`);
    return stored;
  };
  return {
    async read(n) {
      await read(n);
    },
    async update(n) {
      const { version } = await read(n);
      // Where another caller was faster, the work was the same.
      await documents.write([{ id: idOf(n), expected: version, source: source() }]);
    },
  };
}
