import { setTimeout as pause } from 'node:timers/promises';
import {
  type ElasticsearchClient,
  type ElasticsearchConnection,
  errorTypeOf,
  refused,
} from '../../elasticsearch/index.ts';

/** Another made it meanwhile. */
const EXISTS = 'resource_already_exists_exception';

/** Shards that are not there by then may have been lost, which calls find out by themselves. */
const SHARDS_WITHIN_MS = 2_000;
const LOOK_EVERY_MS = 50;

/**
 * The fields of the index. The sweeper looks for documents by them; `body` is the document itself, a text that is only
 * stored, so that nothing in it (depth, names of fields, long values) can be refused. What is not here is stored as well.
 */
const MAPPING = {
  dynamic: false,
  properties: {
    state: { type: 'keyword' },
    dirty: { type: 'boolean' },
    pending_by: { type: 'keyword' },
    pending_n: { type: 'long' },
    updated_ts: { type: 'long' },
    org: { type: 'long', index: false },
    region: { type: 'keyword', index: false },
    body: { type: 'object', enabled: false },
  },
} as const;

type NewIndex = Parameters<ElasticsearchClient['indices']['create']>[0];

export interface ProfileIndexOptions {
  /** The alias that everything is read and written by. */
  readonly alias: string;
  /** Primary shards, when the index is made. */
  readonly shards: number;
}

/**
 * Makes the index and its alias unless they are there; whoever is first makes them. Where this installation may not
 * make indices, somebody who may has to: an index with these fields, under this alias. True where it was made here.
 */
export async function provideIndex(
  connection: ElasticsearchConnection,
  { alias, shards }: ProfileIndexOptions,
): Promise<boolean> {
  const { statusCode } = await connection.call((client) =>
    client.indices.getAlias({ name: alias }, { ignore: [404], meta: true }),
  );
  const isMade = statusCode === 404 && (await makeIndex(connection, indexOf(alias, shards)));
  await shardsRun(connection, alias);
  return isMade;
}

async function makeIndex(connection: ElasticsearchConnection, index: NewIndex): Promise<boolean> {
  const { statusCode, body } = await connection.call((client) =>
    client.indices.create(index, { ignore: [400], meta: true }),
  );
  const type = errorTypeOf(body);
  if (statusCode === 400 && type !== EXISTS) throw refused(400, type);
  return statusCode !== 400;
}

/**
 * Until all shards can be read, or it has taken too long: an index that was just made, by whomever, is there before its
 * shards are, and what it is asked for then fails. Who may use an index may ask this; how its cluster is, not everybody.
 */
async function shardsRun(connection: ElasticsearchConnection, alias: string): Promise<void> {
  for (const until = performance.now() + SHARDS_WITHIN_MS; performance.now() < until; ) {
    const { statusCode } = await connection.call((client) =>
      client.search(
        { index: alias, size: 0, track_total_hits: false, allow_partial_search_results: false },
        { ignore: [503], meta: true },
      ),
    );
    if (statusCode !== 503) return;
    await pause(LOOK_EVERY_MS);
  }
}

/** Refreshed now and then: nothing but the sweeper searches. A copy is kept where there is a second node. */
function indexOf(alias: string, shards: number): NewIndex {
  return {
    index: `${alias}-1`,
    aliases: { [alias]: { is_write_index: true } },
    mappings: MAPPING,
    settings: { number_of_shards: shards, refresh_interval: '5s', auto_expand_replicas: '0-1' },
  };
}
