import { once } from 'node:events';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { NO_LOGGER } from '@tributary/core';
import { adminPort, createMetrics, startAdminServer, startServer } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

/** Details of a process and its faults, which an answer of the public port must not contain. */
const TROUBLE = 'does not answer: connect ECONNREFUSED 10.1.2.3:6379';
const operations = (ready: boolean) => ({
  readiness: () => ({ ready, checks: { catalog: 'catching up', redis: TROUBLE } }),
  metrics: { main: () => createMetrics({ processMetrics: true }).snapshot() },
});
const address = { host: '127.0.0.1', port: 0, trustProxy: [], adminHost: '127.0.0.1', adminPort: 0 };

async function adminServer(settings: Partial<typeof address> = {}, ready = true): Promise<string> {
  const server = await startAdminServer({ ...address, ...settings }, operations(ready), NO_LOGGER);
  onTestFinished(() => server.close());
  return server.url;
}

/** The status of a request with this `Host`, which `fetch` does not allow to set. */
async function statusFor(url: string, host: string): Promise<number | undefined> {
  const sent = request(`${url}/metrics`, { headers: { host } }).end();
  const [answer] = await once(sent, 'response');
  answer.resume();
  return answer.statusCode;
}

describe('the public port', () => {
  it.each([true, false])(
    'named engines and errors in the public /readyz: it has one word, ready %s',
    async (ready) => {
      const gateway = await openTestGateway();
      onTestFinished(() => gateway.close());
      const server = await startServer(address, gateway.dependencies, operations(ready));
      onTestFinished(() => server.close());
      const readyz = await fetch(`${server.url}/readyz`);
      expect(readyz.status).toBe(ready ? 200 : 503);
      expect(await readyz.text()).toBe(`{"status":"${ready ? 'ok' : 'unavailable'}"}`);
      expect(await (await fetch(`${server.url}/livez`)).json()).toEqual({ status: 'alive' });
      for (const path of [
        '/metrics',
        '/metrics/',
        '//metrics',
        '/METRICS',
        '/%6detrics',
        '/api/v1/metrics',
      ]) {
        const answer = await fetch(`${server.url}${path}`);
        expect([path, answer.status, await answer.text()]).toEqual([path, 404, '{"error":"not found"}']);
      }
    },
  );
});

describe('the admin port', () => {
  it('has the metrics and the state of every part', async () => {
    const url = await adminServer({}, false);
    const readyz = await fetch(`${url}/readyz`);
    expect(readyz.status).toBe(503);
    expect(await readyz.json()).toEqual({
      status: 'not ready',
      checks: { catalog: 'catching up', redis: TROUBLE },
    });
    const metrics = await fetch(`${url}/metrics`);
    expect(metrics.headers.get('content-type')).toMatch(/^text\/plain; version=/);
    expect(await metrics.text()).toContain('process_cpu_seconds_total');
    expect((await fetch(`${url}/metrics`, { method: 'HEAD' })).status).toBe(200);
  });

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])(
    'accepted more than GET and HEAD: %s',
    async (method) => {
      const url = await adminServer();
      const body =
        method === 'OPTIONS' ? {} : { body: '{"a":1}', headers: { 'content-type': 'application/json' } };
      const answer = await fetch(`${url}/metrics`, { method, ...body });
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')).toBe('GET, HEAD');
    },
  );

  it('was read by a web page whose name resolves to loopback', async () => {
    const url = await adminServer();
    const { port } = new URL(url);
    for (const host of [
      'evil.example',
      `rebind.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.nip.io',
    ])
      expect([host, await statusFor(url, host)]).toEqual([host, 421]);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`, 'localhost'])
      expect([host, await statusFor(url, host)]).toEqual([host, 200]);
    // Beyond loopback the operator chooses the names.
    expect(await statusFor(await adminServer({ adminHost: '0.0.0.0' }), 'gateway-1')).toBe(200);
  });

  it('was on a port in use, and the message named the wrong variables', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    const taken = other.address();
    const port = typeof taken === 'object' ? (taken?.port ?? 0) : 0;
    await expect(adminServer({ adminPort: port })).rejects.toThrow(
      `port ${port} on 127.0.0.1 is taken by another program: set TRIBUTARY_ADMIN_PORT and TRIBUTARY_ADMIN_HOST`,
    );
  });

  it('collided with that of another role on the machine', () => {
    const chosen = (port: number, own?: number) => adminPort({ port, adminPort: own });
    expect([8080, 8081, 8082].map((port) => chosen(port))).toEqual([9080, 9081, 9082]);
    expect(chosen(65_000)).toBe(64_000);
    expect(chosen(0)).toBe(0);
    expect(chosen(8080, 9464)).toBe(9464);
    expect(chosen(8080, 0)).toBe(0);
  });

  it('delayed scrapes of a role by brokers that accept connections without responding', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const brokers = silent.address();
    const folder = await temporaryFolder();
    const port = await freePort();
    const server = new ServerProcess(['processor'], {
      KAFKA_BROKERS: `127.0.0.1:${typeof brokers === 'object' ? brokers?.port : 0}`,
      REDIS_URL: 'none',
      ELASTICSEARCH_URL: 'none',
      TRIBUTARY_DATA_DIR: folder.path,
      TRIBUTARY_DEV_ISSUER: '1',
      TRIBUTARY_ADMIN_PORT: String(port),
      LOG_LEVEL: 'info',
    });
    onTestFinished(async () => {
      await server.kill();
      silent.close();
      await folder.remove();
    });
    await server.logged(/admin port open/);
    // The first request also compiles code.
    await fetch(`http://127.0.0.1:${port}/metrics`);
    for (let n = 0; n < 3; n++) {
      const from = performance.now();
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
      expect(await answer.text()).toContain(`tributary_metrics_collected_timestamp_seconds{part="main"}`);
      // A scrape waits half a second at most.
      expect(performance.now() - from).toBeLessThan(4_000);
    }
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(503);
  });
});
