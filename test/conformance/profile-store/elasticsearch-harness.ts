import { NO_LOGGER } from '@tributary/core';
import { openElasticsearchProfileStore } from '@tributary/infra';
import { removeIndices } from '../../helpers/elasticsearch.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import type { ProfileStoreHarness } from './harness.ts';

interface Settings {
  readonly url: string;
  readonly prefix: string;
  readonly retentionMs: number;
}

export const harness: ProfileStoreHarness = {
  name: 'Elasticsearch',
  module: import.meta.url,

  async create(retentionMs) {
    const settings: Settings = { url: engines()?.elasticsearchUrl ?? '', prefix: freshPrefix(), retentionMs };
    return {
      settings: JSON.stringify(settings),
      dispose: () => removeIndices(settings.url, settings.prefix),
    };
  },

  open(settings, { publish, clock = Date.now, tidyEveryMs }) {
    const { url, prefix, retentionMs } = JSON.parse(settings) as Settings;
    return openElasticsearchProfileStore({
      access: { urls: [url] },
      prefix,
      retentionMs,
      clock,
      publish,
      logger: NO_LOGGER,
      ...(tidyEveryMs === undefined ? {} : { sweepEveryMs: tidyEveryMs }),
    });
  },
};
