import {
  type ElasticsearchClient,
  type ElasticsearchConnection,
  errorTypeOf,
  refused,
} from '../../elasticsearch/index.ts';

/** Another made it meanwhile. */
const EXISTS = 'resource_already_exists_exception';

/** Less than any call may take: shards that are not there by then may have been lost, which calls find out themselves. */
const SHARDS_WITHIN = '1s';

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
 * make indices, somebody who may has to: an index with these fields, under this alias.
 */
export async function provideIndex(
  connection: ElasticsearchConnection,
  { alias, shards }: ProfileIndexOptions,
): Promise<void> {
  const { statusCode } = await connection.call((client) =>
    client.indices.getAlias({ name: alias }, { ignore: [404], meta: true }),
  );
  if (statusCode === 404) await makeIndex(connection, indexOf(alias, shards));
  await shardsRun(connection, alias);
}

async function makeIndex(connection: ElasticsearchConnection, index: NewIndex): Promise<void> {
  const { statusCode, body } = await connection.call((client) =>
    client.indices.create(index, { ignore: [400], meta: true }),
  );
  const type = errorTypeOf(body);
  if (statusCode === 400 && type !== EXISTS) throw refused(400, type);
}

/**
 * An index that was just made, by whomever, is there before its shards are, and yellow: what it is asked for then fails.
 */
async function shardsRun(connection: ElasticsearchConnection, alias: string): Promise<void> {
  await connection.call((client) =>
    client.cluster.health(
      { index: alias, wait_for_active_shards: 'all', timeout: SHARDS_WITHIN },
      // Not in time, or not this installation's to ask.
      { ignore: [403, 408], meta: true },
    ),
  );
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
