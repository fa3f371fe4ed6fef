import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postKeptAlive, startBalancer } from '../../helpers/balancer.ts';
import { Client } from '../../helpers/client.ts';
import { clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { openEventStream } from '../../helpers/event-stream.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { measured } from '../../helpers/measured.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

/** The longest time for a revocation to take effect on every gateway, ms. */
const ACTS_WITHIN_MS = 1_000;
const isInTime = (ms: number) => ms < ACTS_WITHIN_MS;

interface Key {
  readonly id: string;
  readonly key: string;
}

describe.skipIf(engines() === undefined)('two gateways, each a process', () => {
  const prefix = freshPrefix();
  const processes: ServerProcess[] = [];
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let [here, there] = [new Client('', ''), new Client('', '')];
  let [hereUrl, thereUrl, workspaceId] = ['', '', ''];

  beforeAll(async () => {
    folder = await temporaryFolder();
    const environment = {
      ...clusterEnvironment(prefix),
      TRIBUTARY_DATA_DIR: folder.path,
      TRIBUTARY_DRAIN: '1s',
    };
    for (const role of ['gateway', 'gateway', 'processor'])
      processes.push(new ServerProcess([role], environment));
    const [first = '', second = ''] = await Promise.all(processes.map(readyAt));
    ({ owner: here, workspaceId } = await openWorkspace(first, folder.path, 'Two'));
    there = here.at(second);
    hereUrl = first;
    thereUrl = second;
  });
  afterAll(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await removePrefix(prefix);
    await folder.remove();
  });

  const streamThere = (token: string) => openEventStream(thereUrl, { token, workspaceId });
  const send = (key: string) =>
    there.with({ token: key }).call('POST', './events/track', { event: 'E', user_id: 'u' });

  it('a write key that one revokes is refused by the other within a second, among its events', async () => {
    const takenForMs = async () => {
      const { id, key } = await here.post<Key>('./event-keys', { name: 'k', environment: 'production' });
      const answers: { readonly status: number; readonly sentAt: number }[] = [];
      let sending = true;
      const producer = (async () => {
        while (sending) {
          const sentAt = performance.now();
          answers.push({ status: (await send(key)).status, sentAt });
        }
      })();
      await expect.poll(() => answers.filter(({ status }) => status === 202).length).toBeGreaterThan(10);
      await here.ok('DELETE', `./event-keys/${id}`);
      const revokedAt = performance.now();
      await expect.poll(() => answers.at(-1)?.status).toBe(401);
      sending = false;
      await producer;
      const lastTaken = answers.findLastIndex(({ status }) => status === 202);
      expect(new Set(answers.slice(0, lastTaken + 1).map(({ status }) => status))).toEqual(new Set([202]));
      return (answers[lastTaken]?.sentAt ?? 0) - revokedAt;
    };
    expect(await measured(takenForMs, isInTime)).toBeLessThan(ACTS_WITHIN_MS);
  });

  it('a stream at one ends within a second when its key is revoked at the other', async () => {
    const writer = await here.post<Key>('./event-keys', { name: 'w', environment: 'production' });
    const openForMs = async () => {
      const { id, key } = await here.post<Key>('./api-keys', { name: 'watcher' });
      const stream = await streamThere(key);
      await send(writer.key);
      await stream.got(1);
      await here.ok('DELETE', `./api-keys/${id}`);
      const revokedAt = performance.now();
      await stream.over();
      const ms = performance.now() - revokedAt;
      expect(stream.notices('end')).toEqual([{ reason: 'not authenticated' }]);
      expect((await streamThere(key)).status).toBe(401);
      return ms;
    };
    expect(await measured(openForMs, isInTime)).toBeLessThan(ACTS_WITHIN_MS);
  });

  it('a member that one removes is refused by the other within a second', async () => {
    const issuer = openDevIssuer({ dataFolder: folder.path, devIssuerKey: '' });
    const token = await issuer.mint('guest@example.com');
    const guest = there.with({ token });
    const status = async () => (await guest.call('GET', './sources')).status;
    const acceptedForMs = async () => {
      const { id } = await here.post<{ id: string }>('./members', {
        email: 'guest@example.com',
        role: 'viewer',
      });
      await expect.poll(status).toBe(200);
      await here.ok('DELETE', `./members/${id}`);
      const removedAt = performance.now();
      await expect.poll(status).toBe(403);
      return performance.now() - removedAt;
    };
    expect(await measured(acceptedForMs, isInTime)).toBeLessThan(ACTS_WITHIN_MS);
  });

  // The last test, because it ends a gateway.
  it('refused connections after SIGTERM: it serves on until its balancer has noticed', async () => {
    const { key } = await here.post<Key>('./event-keys', { name: 'k', environment: 'production' });
    await expect.poll(async () => (await send(key)).status).toBe(202);
    const balancer = await startBalancer([hereUrl, thereUrl], 100);
    let isOver = false;
    const load = postKeptAlive({
      url: `${balancer.url}/api/v1/workspaces/${workspaceId}/events/track`,
      headers: { authorization: `Bearer ${key}`, 'x-workspace-id': workspaceId },
      clients: 8,
      body: () => (isOver ? undefined : JSON.stringify({ event: 'E', user_id: 'u' })),
    });
    const leaving = processes[1]?.stop();
    await expect.poll(async () => (await fetch(`${thereUrl}/readyz`)).status).toBe(503);
    expect((await send(key)).status).toBe(202);
    await expect.poll(() => balancer.ready()).toEqual([hereUrl]);
    expect(await leaving).toBe(0);
    isOver = true;
    expect(await load).toEqual({ 202: expect.any(Number) });
    await balancer.close();
  });
});
