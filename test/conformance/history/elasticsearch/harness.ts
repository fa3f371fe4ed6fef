import { NO_LOGGER } from '@tributary/core';
import { openElasticsearchHistory } from '@tributary/infra/adapters/history/elasticsearch';
import { removeIndices } from '../../../helpers/elasticsearch.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { type HistoryHarness, RETENTION_MS } from '../suite/harness.ts';

interface Settings {
  readonly url: string;
  readonly prefix: string;
}

export const harness: HistoryHarness = {
  name: 'Elasticsearch',
  module: import.meta.url,

  async create() {
    const settings: Settings = { url: engines()?.elasticsearchUrl ?? '', prefix: freshPrefix() };
    return {
      settings: JSON.stringify(settings),
      dispose: () => removeIndices(settings.url, settings.prefix),
    };
  },

  open(settings) {
    const { url, prefix } = JSON.parse(settings) as Settings;
    return openElasticsearchHistory({
      access: { urls: [url] },
      prefix,
      clock: Date.now,
      retentionMs: RETENTION_MS,
      logger: NO_LOGGER,
    });
  },
};
