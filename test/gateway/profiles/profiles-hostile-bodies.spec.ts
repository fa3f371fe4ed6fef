import { beforeAll, describe, expect, it } from 'vitest';
import { openProfiles, type ProfileClient, sendInto } from '../../helpers/profile-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

/** Generous: the test is about gaps of many seconds. */
const MAX_GAP_MS = 5_000;
const BODY_BYTES = 4 * 1024 * 1024 - 1024;

const test = await suiteGateway();
let client: ProfileClient;
beforeAll(async () => {
  const owner = await test.openWorkspace();
  client = (await openProfiles(owner, owner.workspaceId, sendInto(test.app))).client;
});

/** As many items as fit into a body, joined by commas. */
function full(item: (n: number) => string): string {
  const items: string[] = [];
  for (let n = 0, bytes = 0; bytes < BODY_BYTES; n++) {
    const text = item(n);
    bytes += text.length + 1;
    items.push(text);
  }
  return items.slice(0, -1).join(',');
}

const names = (value: string) => full((n) => `"n${n}":${value}`);

/** The result of the call, and the longest time that it kept the thread from other work, ms. */
async function longestGapOf<T>(call: () => Promise<T>) {
  let longest = 0;
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 1);
  try {
    const result = await call();
    look();
    return { result, longest };
  } finally {
    clearInterval(timer);
  }
}

const write = (fields: string) => `"region":"eu",${fields}`;
const search = (fields: string) => `"regions":["eu"],${fields}`;

describe('a body of 4 MiB delays no other request', () => {
  it.each<[string, number, string, () => string]>([
    ['nested as deep as it gets', 400, '', () => `"a":${'['.repeat(2e6)}${']'.repeat(2e6)}`],
    ['of unknown fields', 400, '', () => write(names('1'))],
    ['of identities', 400, '', () => write(`"ids":{${names('"x"')}}`)],
    ['of identities that are numbers', 400, '', () => write(`"ids":{${names('1')}}`)],
    ['of categories', 413, '', () => write(`"ids":{"AdId":"x"},"upsert":{"profile":{${names('1')}}}`)],
    ['of attributes', 413, '', () => write(`"ids":{"AdId":"x"},"upsert":{"profile":{"a":{${names('1')}}}}`)],
    ['of consents', 413, '', () => write(`"ids":{"AdId":"x"},"upsert":{"consent":{${names('"1"')}}}`)],
    ['of regions', 400, '/_search', () => `"search":{"AdId":["x"]},"regions":[${full((n) => `"${n}"`)}]`],
    [
      'of regions that are numbers',
      400,
      '/_search',
      () => `"search":{"AdId":["x"]},"regions":[${full(String)}]`,
    ],
    ['of values', 400, '/_search', () => search(`"search":{"AdId":[${full((n) => `"${n}"`)}]}`)],
    ['of types', 400, '/_search', () => search(`"search":{${names('["x"]')}}`)],
    ['of types to delete', 400, '/_delete', () => write(`"ids":{${names('["x"]')}}`)],
  ])('%s', async (_, status, path, fields) => {
    const body = `{"orgId":${client.orgId},${fields()}}`;
    const headers = { ...client.headers, 'content-type': 'application/json' };
    const send = () => sendInto(test.app)(`/cdp/v1/users${path}`, headers, body);
    const { result, longest } = await longestGapOf(send);
    expect(result.status).toBe(status);
    expect(longest).toBeLessThan(MAX_GAP_MS);
  });
});
