import type { Delivery } from '@tributary/core';
import { describe } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import { type ConnectorHarness, ENGINE_CONNECTORS, noEngine, type ReceivedBody } from '../suite/harness.ts';
import { networkConformance } from '../suite/network.conformance.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('elasticsearch', elasticsearchHarness);
  networkConformance('elasticsearch', elasticsearchHarness, spoil);
});

const MAPPING = {
  settings: { number_of_shards: 1, number_of_replicas: 0 },
  mappings: {
    dynamic: false,
    properties: { event: { properties: { properties: { properties: { n: { type: 'long' } } } } } },
  },
};

async function elasticsearchHarness(): Promise<ConnectorHarness> {
  const url = new URL(engines()?.elasticsearchUrl ?? noEngine('elasticsearch'));
  const proxy = await startFaultyProxy({ host: url.hostname, port: Number(url.port) });
  const index = `${freshPrefix()}events`;
  const ask = async (path: string, method = 'GET', body?: object): Promise<unknown> => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(new URL(path, url), { method, headers, body: JSON.stringify(body) ?? null });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  await ask(index, 'PUT', MAPPING);
  const at = (host: string) => ({
    url: `http://${host}:${proxy.port}`,
    index,
    username: 'elastic',
    password: 'very-secret-password',
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: { ...at('10.0.0.1') },
    connectors: ENGINE_CONNECTORS,
    ordered: false,
    idempotent: true,
    network: { proxy, at },
    received: async () => {
      await ask(`${index}/_refresh`, 'POST');
      const found = (await ask(`${index}/_search?size=10000`)) as SearchAnswer;
      return found.hits.hits.map(({ _source: { '@timestamp': _, ...body } }) => body);
    },
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await ask(index, 'DELETE');
    },
  };
}

interface SearchAnswer {
  readonly hits: { readonly hits: readonly { readonly _source: ReceivedBody & { '@timestamp': string } }[] };
}

/** The mapping requires a number here. */
function spoil(delivery: Delivery): Delivery {
  return { ...delivery, event: { ...delivery.event, properties: { n: 'many' } } };
}
