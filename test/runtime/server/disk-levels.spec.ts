import type { DiskLevel } from '@tributary/core';
import { startServer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

const FULL = { status: 503, body: { reason: 'disk_full' } };

describe('a full disk', () => {
  let gateway: TestGateway;
  let server: Awaited<ReturnType<typeof startServer>>;
  let owner: Client;
  const ids = { workspace: '', destination: '', rule: '', key: '', source: '' };
  const disk: { level: DiskLevel; isSpent: boolean; hasHalf: boolean; given: number } = {
    level: 'enough',
    isSpent: false,
    hasHalf: true,
    given: 0,
  };
  beforeAll(async () => {
    gateway = await openTestGateway();
    const { token, workspaceId = '' } = await gateway.openWorkspace();
    ids.workspace = workspaceId;
    const watch = {
      level: () => disk.level,
      isSpent: () => disk.isSpent,
      makeRoom: (of: 'all' | 'half' = 'all') => {
        if (of === 'half') return disk.hasHalf;
        disk.given++;
        return true;
      },
    };
    server = await startServer(
      { host: '127.0.0.1', port: 0, trustProxy: [] },
      gateway.dependencies,
      { readiness: () => ({ ready: true, checks: {} }) },
      watch,
    );
    owner = new Client(server.url, token, workspaceId);
    const created = async (path: string, body: object) => (await owner.post<{ id: string }>(path, body)).id;
    const settings = { folder: 'out' };
    ids.destination = await created('./destinations', { name: 'd', type: 'ndjson', settings });
    ids.rule = await created('./event-forwarding-rules', { name: 'r', destination_id: ids.destination });
    ids.key = await created('./event-keys', { name: 'k', environment: 'production' });
    ids.source = await created('./sources', { name: 's', type: 'http' });
    Object.assign(disk, { level: 'full', given: 0 });
  });
  afterAll(async () => {
    await server.close();
    await gateway.close();
  });

  it.each([
    ['PATCH', './destinations/', 'destination', { name: 'x'.repeat(200) }],
    ['PATCH', './destinations/', 'destination', { enabled: true }],
    ['PATCH', './event-forwarding-rules/', 'rule', { name: 'y' }],
    ['PATCH', './sources/', 'source', { name: 'z' }],
    ['PATCH', '/workspaces/', 'workspace', { name: 'w' }],
    ['POST', './sources', undefined, { name: 'new', type: 'http' }],
  ] as const)(
    'was used up by changes: %s %s%s is refused, and takes nothing of the ballast',
    async (method, path, id, body) => {
      expect(await owner.call(method, `${path}${id === undefined ? '' : ids[id]}`, body)).toMatchObject(FULL);
      expect(disk.given).toBe(0);
    },
  );

  it('serves reads, tests and switching off without the ballast', async () => {
    for (const [method, path, body] of [
      ['GET', './sources', undefined],
      ['POST', './event-forwarding-rules/test', { event: { type: 'track', event: 'A', user_id: 'u' } }],
      ['PATCH', `./event-forwarding-rules/${ids.rule}`, { enabled: false }],
      ['PATCH', `./destinations/${ids.destination}`, { paused: true }],
      ['POST', './deliveries/discard', undefined],
    ] as const) {
      const { status } = await owner.call(method, path, body);
      expect([path, status]).toEqual([path, expect.toSatisfy((code: number) => code < 300)]);
    }
    expect(disk.given).toBe(0);
  });

  it('with nothing but the ballast serves removals and sign-in, and discards from half of it', async () => {
    disk.isSpent = true;
    expect((await owner.call('POST', './deliveries/discard')).status).toBe(202);
    disk.hasHalf = false;
    expect(await owner.call('POST', './deliveries/discard')).toMatchObject(FULL);
    const switchOff = { enabled: false };
    expect(await owner.call('PATCH', `./destinations/${ids.destination}`, switchOff)).toMatchObject(FULL);
    expect((await owner.call('GET', './sources')).status).toBe(200);
    expect(disk.given).toBe(0);
    expect((await owner.call('GET', '/me')).status).toBe(200);
    for (const path of [
      `./event-forwarding-rules/${ids.rule}`,
      `./destinations/${ids.destination}`,
      `./event-keys/${ids.key}`,
      `/workspaces/${ids.workspace}`,
    ])
      expect((await owner.call('DELETE', path)).status).toBe(200);
    expect(disk.given).toBe(5);
  });
});
