import type { History, Logger } from '@tributary/core';
import type { ElasticsearchAccess } from '../../../adapters/elasticsearch/index.ts';
import { openSqliteHistory } from '../../../adapters/history/sqlite/index.ts';
import type { Config } from '../../config/settings.ts';
import { embeddedFolders } from '../folders.ts';

/** The history: on Elasticsearch where it is named, which need not answer yet, else on SQLite. */
export async function openHistory(config: Config, logger: Logger): Promise<History> {
  const access = elasticsearchAccess(config);
  const [clock, retentionMs] = [Date.now, config.historyRetention ?? config.retention];
  if (access !== undefined) {
    const { openElasticsearchHistory } = await import('../../../adapters/history/elasticsearch/index.ts');
    return openElasticsearchHistory({ access, prefix: config.prefix, clock, retentionMs, logger });
  }
  return openSqliteHistory({ folder: embeddedFolders(config).history, clock, retentionMs });
}

/** How this process reaches Elasticsearch; undefined where none is named. */
export function elasticsearchAccess(config: Config): ElasticsearchAccess | undefined {
  const { elasticsearchUrl: urls, elasticsearchApiKey: apiKey, elasticsearchTlsCa: ca } = config;
  const { elasticsearchUsername: username, elasticsearchPassword: password } = config;
  if (urls === undefined) return undefined;
  return {
    urls,
    ...(apiKey === undefined ? {} : { credentials: { apiKey } }),
    ...(username === undefined || password === undefined ? {} : { credentials: { username, password } }),
    ...(ca === undefined ? {} : { ca }),
  };
}
