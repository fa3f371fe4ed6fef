import type { Connector } from '@tributary/core';
import { beforeAll, expect, test } from 'vitest';
import { PackHost } from './pack-process.ts';
import { EVENTS } from './pack-runs.fixture.ts';
import { definitionOf, startVendors } from './vendors.fixture.ts';

const KEY = 'key-0123456789abcdef';
const vendors = startVendors((response, { url }) => {
  response.writeHead(url === 'refuses/v1/batch' ? 403 : 202).end(`{"key": "${KEY}"}`);
});
let connector: Connector;
let endpoint: string;
beforeAll(() => {
  endpoint = vendors.address;
  vendors.rewritten = ({ href }) => href;
  connector = vendors.connect(definitionOf('klime'), new PackHost());
});

const { signal } = new AbortController();
const target = (apiEndpoint: string, trigger = 'type = "track"') => ({
  id: 'd',
  workspaceId: 'w1',
  version: 1,
  settings: {
    apiEndpoint,
    writeKey: KEY,
    subscriptions: ['type = "identify"', trigger].map((one) => ({
      action: 'track',
      trigger: one,
      mapping: {
        event: { '@path': '$.event' },
        userId: { '@path': '$.userId' },
        messageId: { '@path': '$.messageId' },
        timestamp: { '@path': '$.timestamp' },
        enable_batching: true,
      },
    })),
  },
});

test('an event is sent for a trial, and the answer is shown without secrets', async () => {
  const taken = await connector.deliverTrial?.(target(endpoint), EVENTS.track, { signal });
  expect(taken).toMatchObject({
    result: { outcome: 'delivered', status: 202 },
    requests: [{ method: 'POST', response: { status: 202, body: '{"key": "***"}' } }],
  });
  expect(JSON.stringify(taken?.requests)).not.toContain(KEY);
  const refused = await connector.deliverTrial?.(target(`${endpoint}/refuses`), EVENTS.track, { signal });
  expect(refused).toMatchObject({
    result: { outcome: 'dead', status: 403 },
    requests: [{ response: { status: 403 } }],
  });
  const absent = await connector.deliverTrial?.(target('http://127.0.0.1:9'), EVENTS.track, { signal });
  expect(absent).toMatchObject({ result: { outcome: 'retry' }, requests: [{ response: null }] });
});

test('events are counted by the trigger that they meet', async () => {
  const events = [EVENTS.track, EVENTS.identify, EVENTS.track, EVENTS.page];
  const counts = (trigger: string) => connector.countMatches?.(target(endpoint, trigger), events, { signal });
  expect(await counts('type = "track"')).toEqual([1, 2]);
  expect(await counts('type = "track" or type = "page"')).toEqual([1, 3]);
});
