import { type StoreMark, Unavailable } from '@tributary/core';
import {
  ElasticsearchConnection,
  type ElasticsearchStoreOptions,
  indexPrefix,
} from '../../elasticsearch/index.ts';

export interface ElasticsearchStoreMarkOptions extends ElasticsearchStoreOptions {
  /** Creates the index of profiles and its alias if they are missing. */
  readonly provide: (connection: ElasticsearchConnection, alias: string) => Promise<unknown>;
}

interface MarkSource {
  readonly installation?: unknown;
}

const ID = 'installation';
/** Another process created it first. */
const CONFLICT = 409;

/**
 * A `StoreMark` in a document of the index of profiles. Unlike index metadata, only one of several processes can create it;
 * and it is deleted and restored together with the profiles. No search of the profile store finds it.
 */
export async function openElasticsearchStoreMark(options: ElasticsearchStoreMarkOptions): Promise<StoreMark> {
  const { prefix, provide } = options;
  const index = `${indexPrefix(prefix)}profiles`;
  const connection = await ElasticsearchConnection.open(options);
  const read = async () => {
    const { body } = await connection.call((client) =>
      client.get<MarkSource>({ index, id: ID }, { ignore: [404], meta: true }),
    );
    const id = body._source?.installation;
    return typeof id === 'string' ? id : undefined;
  };
  return {
    store: `Elasticsearch (index ${index})`,
    read,
    async claim(installation) {
      await provide(connection, index);
      await connection.call((client) =>
        client.create(
          { index, id: ID, document: { installation }, require_alias: true },
          { ignore: [CONFLICT] },
        ),
      );
      const id = await read();
      if (id === undefined) throw new Unavailable(`${index} lost its mark immediately after the write`);
      return id;
    },
    async replace(installation) {
      await provide(connection, index);
      await connection.call((client) =>
        client.index({ index, id: ID, document: { installation }, require_alias: true }),
      );
    },
    async holdsProfiles() {
      const { statusCode, body } = await connection.call((client) =>
        client.search(
          {
            index,
            size: 1,
            _source: false,
            terminate_after: 1,
            track_total_hits: false,
            query: { term: { state: 'live' } },
          },
          { ignore: [404], meta: true },
        ),
      );
      return statusCode !== 404 && body.hits.hits.length > 0;
    },
    close: () => connection.close(),
  };
}
