// Runs alone in the long form: it sends 100,000 requests while gateways are restarted. `two-gateways.spec.ts` has the short form.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { postKeptAlive, startBalancer } from '../../helpers/balancer.ts';
import { Client } from '../../helpers/client.ts';
import { clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

const [REQUESTS, LEAST_RESTARTS, CLIENTS] = [100_000, 4, 64];
/** A common poll interval of balancers, ms. */
const POLL_MS = 1_000;

const EVENT = { event: 'Restarted', user_id: 'u1' };

describe.skipIf(engines() === undefined)('a rolling restart of gateways behind a balancer', () => {
  const prefix = freshPrefix();
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  const running = new Map<string, ServerProcess>();
  let environment: Readonly<Record<string, string>>;

  const start = async (port: string) => {
    const gateway = new ServerProcess(['gateway'], { ...environment, PORT: port, TRIBUTARY_ADMIN_PORT: '0' });
    running.set(port, gateway);
    await readyAt(gateway);
  };

  beforeAll(async () => {
    folder = await temporaryFolder();
    environment = {
      ...clusterEnvironment(prefix),
      TRIBUTARY_DATA_DIR: folder.path,
      TRIBUTARY_DRAIN: '5s', // the default, which the helper takes away
      LOG_LEVEL: 'info',
    };
    const ports = [await freePort(), await freePort()];
    await Promise.all(ports.map((port) => start(String(port))));
  }, 60_000);
  afterAll(async () => {
    await Promise.all([...running.values()].map((one) => one.kill()));
    await removePrefix(prefix);
    await folder.remove();
  });

  it('refused connections: clients that keep theirs get an answer of 2xx to every request', {
    timeout: 600_000,
  }, async () => {
    const urls = [...running.keys()].map((port) => `http://127.0.0.1:${port}`);
    const { workspaceId, writeKey: key } = await openWorkspace(urls[0] ?? '', folder.path, 'Rolling');
    // The other gateway answers 401 until it has folded the fact about the key.
    for (const url of urls)
      await expect
        .poll(() => new Client(url, key, workspaceId).call('POST', './events/track', EVENT))
        .toMatchObject({ status: 202 });

    const balancer = await startBalancer(urls, POLL_MS);
    let sent = 0;
    let restarts = 0;
    const isOver = () => sent >= REQUESTS && restarts >= LEAST_RESTARTS;
    const load = postKeptAlive({
      url: `${balancer.url}/api/v1/workspaces/${workspaceId}/events/track`,
      headers: { authorization: `Bearer ${key}`, 'x-workspace-id': workspaceId },
      clients: CLIENTS,
      body: () => {
        if (isOver()) return undefined;
        sent++;
        return JSON.stringify(EVENT);
      },
    });
    const ports = [...running.keys()];
    for (; !isOver(); restarts++) {
      const port = ports[restarts % ports.length] ?? '';
      expect(await running.get(port)?.stop()).toBe(0);
      await start(port);
      await expect.poll(() => balancer.ready().length, { timeout: 30_000 }).toBe(urls.length);
    }
    const outcomes = await load;
    await balancer.close();
    expect(outcomes).toEqual({ 202: expect.any(Number) });
    expect(outcomes[202]).toBeGreaterThanOrEqual(REQUESTS);
  });
});
