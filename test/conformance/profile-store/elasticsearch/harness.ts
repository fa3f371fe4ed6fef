import { NO_LOGGER } from '@tributary/core';
import { openElasticsearchProfileStore } from '@tributary/infra/adapters/profile-store/elasticsearch';
import { removeIndices } from '../../../helpers/elasticsearch.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import type { ProfileStoreHarness } from '../suite/harness.ts';

export interface ElasticsearchSettings {
  readonly url: string;
  readonly prefix: string;
  readonly retentionMs: number;
  /** The timeout of one call of the engine. */
  readonly timeoutMs?: number;
}

export const harness: ProfileStoreHarness = {
  name: 'Elasticsearch',
  module: import.meta.url,
  publishesForOthers: false,

  async create(retentionMs) {
    const settings: ElasticsearchSettings = {
      url: engines()?.elasticsearchUrl ?? '',
      prefix: freshPrefix(),
      retentionMs,
    };
    return {
      settings: JSON.stringify(settings),
      dispose: () => removeIndices(settings.url, settings.prefix),
    };
  },

  open(settings, { publish, clock = Date.now, tidyEveryMs }) {
    const { url, prefix, retentionMs, timeoutMs } = JSON.parse(settings) as ElasticsearchSettings;
    return openElasticsearchProfileStore({
      access: { urls: [url] },
      prefix,
      retentionMs,
      clock,
      publish,
      logger: NO_LOGGER,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(tidyEveryMs === undefined ? {} : { sweepEveryMs: tidyEveryMs }),
    });
  },
};
