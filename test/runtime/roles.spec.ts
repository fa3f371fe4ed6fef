import { connect, createServer } from 'node:net';
import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Client, eventually } from '../helpers/client.ts';
import { adminOf, clusterEnvironment, readyAt } from '../helpers/cluster.ts';
import { engines, freshPrefix } from '../helpers/engines.ts';
import { temporaryFolder } from '../helpers/folder.ts';
import { freePort } from '../helpers/free-port.ts';
import { openEntries } from '../helpers/open-entries.ts';
import { ranHere } from '../helpers/ran-here.ts';
import { removePrefix } from '../helpers/remove-prefix.ts';
import { scrape } from '../helpers/scrape.ts';
import { ServerProcess } from '../helpers/server-process.ts';

const isThere = engines() !== undefined;
const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Of what both roles do by way of the same code, the short form tries one. */
const eitherOf = (role: string, other: string) => (IS_LONG ? [[role], [other]] : [[role]]);

describe.skipIf(!isThere)('the roles of a cluster', () => {
  const prefix = freshPrefix();
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let environment: Readonly<Record<string, string>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
    environment = { ...clusterEnvironment(prefix), TRIBUTARY_DATA_DIR: folder.path, LOG_LEVEL: 'info' };
  });
  afterAll(async () => {
    await removePrefix(prefix);
    await folder.remove();
  });

  function start(command: readonly string[], env: Readonly<Record<string, string>> = {}): ServerProcess {
    const server = new ServerProcess(command, { ...environment, ...env });
    onTestFinished(() => server.kill());
    return server;
  }
  /** Where it answers about itself, which it does before it is ready. */
  const address = async (server: ServerProcess) =>
    (await server.logged(/"url":"([^"]+)","message":"answering about itself"/))[1] ?? '';
  const status = async (url: string) => (await fetch(url)).status;

  it('topics: creates what is missing and says what was there', async () => {
    const first = start(['topics']);
    expect(await first.ended()).toBe(0);
    expect(first.output).toContain(`created  ${prefix}events.production, 2 partitions\n`);
    expect(first.output).toContain(`created  ${prefix}catalog, 1 partition\n`);
    expect(first.log).toContain('FEWER THAN THREE REPLICAS');
    const second = await ranHere(['topics'], environment);
    expect(second.code).toBe(0);
    expect(second.output).toContain(`exists   ${prefix}events.production, 2 partitions\n`);
    expect(second.output).not.toContain('created');
  });

  it('topics: says in a sentence that they are laid out otherwise', async () => {
    const run = await ranHere(['topics'], { ...environment, TRIBUTARY_PARTITIONS: '3' });
    expect(run.code).toBe(1);
    expect(run.log).toContain(`tributary topics: `);
    expect(run.log).toContain(`${prefix}events.production has 2 partitions, not 3`);
  });

  it.each(eitherOf('gateway', 'processor'))(
    '%s: says in a sentence that the topics are laid out otherwise',
    async (role) => {
      const server = start([role], { TRIBUTARY_PARTITIONS: '3' });
      expect(await server.ended()).toBe(1);
      expect(server.log).toContain(`tributary ${role}: `);
      expect(server.log).toContain(`${prefix}events.production has 2 partitions, not 3`);
    },
  );

  it('processor: did not start without a schema registry; runs the stages it was told to, and no other', async () => {
    const server = start(['processor', '--stages', 'count,history'], {
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${await freePort()}`,
    });
    const url = await readyAt(server);
    expect(server.log).toContain('what is written to public topics waits for the schema registry');
    expect(await status(`${url}/livez`)).toBe(200);
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ status: 'ok' });
    const adminUrl = await adminOf(server);
    expect(await (await fetch(`${adminUrl}/readyz`)).json()).toMatchObject({
      status: 'ready',
      checks: {
        catalog: 'caught up',
        kafka: expect.any(String),
        redis: expect.any(String),
        elasticsearch: expect.any(String),
      },
    });
    const stages = await eventually(
      async () => {
        const text = await scrape(adminUrl);
        return new Set(
          [...text.matchAll(/^tributary_stage_lag_records\{stage="([^"]+)"/gm)].map(([, name]) => name),
        );
      },
      (found) => found.size === 2,
    );
    expect([...stages].sort()).toEqual(['count', 'history']);
    const figures = await scrape(adminUrl);
    expect(figures).toMatch(/^tributary_build_info\{version="[^"]+",node="24\.[^"]+",role="processor"\} 1$/m);
    expect(figures).toContain('tributary_engine_up{engine="redis",part="stages"} 1\n');
    expect(await status(`${url}/api/v1/workspaces`)).toBe(404);
    expect(await server.stop()).toBe(0);
    expect(openEntries(folder.path)).toEqual([]);
  });

  it('gateway: starts without Redis, Elasticsearch and a schema registry, takes events, and says 503 for what they hold', async () => {
    const server = start(['gateway'], {
      REDIS_URL: `redis://127.0.0.1:${await freePort()}`,
      ELASTICSEARCH_URL: `http://127.0.0.1:${await freePort()}`,
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${await freePort()}`,
    });
    const url = await readyAt(server);
    expect(server.log).toContain('what is written to public topics waits for the schema registry');
    const token = await openDevIssuer({ dataFolder: folder.path, devIssuerKey: '' }).mint('a@example.com');
    const person = new Client(url, token);
    const { id: workspaceId } = await person.post<{ id: string }>('/workspaces', { name: 'W' });
    const owner = person.with({ workspaceId });
    const { key } = await owner.post<{ key: string }>('./event-keys', {
      name: 'k',
      environment: 'production',
    });
    const sent = await owner
      .with({ token: key })
      .call('POST', './events/track', { body: { event: 'E', user_id: 'u' } });
    expect(sent.status).toBe(202);
    const volume = await owner.call('GET', './event-volume');
    expect(volume).toMatchObject({ status: 503, body: { error: 'unavailable' } });
    expect(volume.headers.get('retry-after')).toMatch(/^\d+$/);
    const deliveries = await owner.call('GET', './deliveries');
    expect(deliveries).toMatchObject({ status: 503, body: { error: 'unavailable' } });
    const adminUrl = await adminOf(server);
    const readyz = await eventually(
      async () => (await fetch(`${adminUrl}/readyz`)).json() as Promise<{ checks: Record<string, string> }>,
      ({ checks }) => !Object.values(checks).includes('not asked yet'),
    );
    expect(readyz).toMatchObject({
      status: 'ready',
      checks: {
        kafka: 'answers',
        redis: expect.stringMatching(/^does not answer/),
        elasticsearch: expect.stringMatching(/^does not answer/),
      },
    });
    expect(await server.stop()).toBe(0);
  });

  it.each([
    ['gateway', ['gateway']],
    ['processor', ['processor', '--stages', 'history']],
  ])('%s: waits for Kafka, alive and not ready, and starts once it is there', async (_, command) => {
    const port = await freePort();
    const server = start(command, { KAFKA_BROKERS: `127.0.0.1:${port}` });
    const url = await address(server);
    await server.logged(/not possible yet; trying again/);
    expect(await status(`${url}/livez`)).toBe(200);
    expect(await status(`${url}/readyz`)).toBe(503);
    await startBootstrap(port);
    await readyAt(server);
    await eventually(
      () => status(`${url}/readyz`),
      (code) => code === 200,
    );
    expect(await server.stop()).toBe(0);
  });

  /** Leads to the broker of the run, which tells its own address to whoever asks. */
  async function startBootstrap(port: number): Promise<void> {
    const [host, brokerPort] = (engines()?.kafkaBrokers ?? '').split(':');
    const server = createServer((socket) => {
      const broker = connect(Number(brokerPort), host);
      socket.pipe(broker).pipe(socket);
      for (const end of [socket, broker]) end.on('error', () => end.destroy());
    }).listen(port, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    onTestFinished(() => void server.close());
  }
});

describe('the roles of a cluster without Kafka', () => {
  it.each(eitherOf('processor', 'gateway'))(
    '%s: gives up in a sentence once the time is over',
    async (role) => {
      const folder = await temporaryFolder();
      onTestFinished(() => folder.remove());
      const server = new ServerProcess([role], {
        KAFKA_BROKERS: `127.0.0.1:${await freePort()}`,
        TRIBUTARY_DATA_DIR: folder.path,
        TRIBUTARY_DEV_ISSUER: '1',
        TRIBUTARY_START_TIMEOUT: '2s',
      });
      expect(await server.ended()).toBe(1);
      expect(server.log).toMatch(
        new RegExp(`tributary ${role}: .* not possible within TRIBUTARY_START_TIMEOUT \\(2 s\\)`),
      );
    },
  );

  it.each([['gateway'], ['processor'], ['topics']])('%s: refuses to start without brokers', async (role) => {
    const run = await ranHere([role], {});
    expect(run.code).toBe(2);
    expect(run.log).toContain('KAFKA_BROKERS is needed');
  });

  it('processor: refuses a stage that is none and names those there are', async () => {
    const run = await ranHere(['processor', '--stages', 'validate,rout'], {});
    expect(run.code).toBe(2);
    expect(run.log).toMatch(
      /there is no "rout"; there are validate, validate\.slow, count, .*deliver\.retry/,
    );
  });
});
