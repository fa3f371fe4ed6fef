import { type Catalog, NO_LOGGER } from '@tributary/core';
import { openDevIssuer, openLogCatalog, startServer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { troubledLog } from '../../conformance/catalog/log/troubled-log.ts';
import type { RunningKafka } from '../../engines/index.ts';
import { Client, eventually } from '../../helpers/client.ts';
import { adminOf, readyAt } from '../../helpers/cluster.ts';
import { engines } from '../../helpers/engines.ts';
import { openEventStream } from '../../helpers/event-stream.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

const EVENT = { event: 'Sent', user_id: 'u1' };

interface Readyz {
  readonly status: string;
  readonly checks: Readonly<Record<string, string>>;
}

const readyz = async (adminUrl: string) => {
  const answer = await fetch(`${adminUrl}/readyz`);
  return { code: answer.status, body: (await answer.json()) as Readyz };
};

/** A producer and a person of one workspace. */
interface Callers {
  readonly producer: Client;
  readonly owner: Client;
  readonly workspaceId: string;
}

async function callersAt(url: string, token: string): Promise<Callers> {
  const person = new Client(url, token);
  const { id: workspaceId } = await person.post<{ id: string }>('/workspaces', { name: 'W' });
  const owner = person.with({ workspaceId });
  const key = { name: 'k', environment: 'production' };
  const { key: raw } = await owner.post<{ key: string }>('./event-keys', key);
  return { owner, producer: owner.with({ token: raw }), workspaceId };
}

const send = ({ producer }: Callers) => producer.call('POST', './events/track', EVENT);
const list = ({ owner }: Callers) => owner.call('GET', './event-keys');

/** A gateway with a stale catalog answers both kinds of call with a temporary refusal, never a final one. */
async function expectPutOff(callers: Callers): Promise<void> {
  for (const answer of [await send(callers), await list(callers)]) {
    expect(answer).toMatchObject({ status: 503, body: { error: 'unavailable' } });
    expect(answer.headers['retry-after']).toMatch(/^\d+$/);
  }
}

describe('a gateway that gets no records from the log', () => {
  it('continues for a while, then stops trusting its catalog, and recovers by itself', async () => {
    const gateway = await openTestGateway();
    onTestFinished(() => gateway.close());
    const log = troubledLog(gateway.dependencies.log);
    const catalog: Catalog = openLogCatalog({ log, logger: NO_LOGGER, fetchWaitMs: 50, staleAfterMs: 1_500 });
    onTestFinished(() => catalog.close());
    const server = await startServer(
      { host: '127.0.0.1', port: 0, trustProxy: [], catalogStalenessMs: 1_500 },
      { ...gateway.dependencies, catalog },
      { readiness: () => ({ ready: catalog.ready, checks: {} }) },
    );
    onTestFinished(() => server.close());
    await eventually(
      () => catalog.ready,
      (ready) => ready,
    );
    const signedIn = await gateway.signIn('owner@example.com');
    const token = String(signedIn.token);
    const callers = await callersAt(server.url, token);
    expect((await send(callers)).status).toBe(202);

    const stream = await openEventStream(server.url, { token, workspaceId: callers.workspaceId });
    onTestFinished(() => stream.close());

    log.silentReads = true;
    await eventually(
      () => catalog.age,
      (age) => age > 500,
    );
    // Otherwise a load balancer would remove every gateway, although each can still serve its current state.
    expect((await readyz(server.url)).code).toBe(200);
    expect((await list(callers)).status).toBe(200);
    expect(stream.isOver).toBe(false);
    await eventually(
      () => list(callers),
      ({ status }) => status === 503,
    );
    await expectPutOff(callers);
    expect((await readyz(server.url)).code).toBe(503);
    await stream.over(1_000);
    expect(stream.notices('end')).toEqual([{ reason: 'unavailable' }]);
    expect((await fetch(`${server.url}/livez`)).status).toBe(200);

    log.silentReads = false;
    await eventually(
      () => list(callers),
      ({ status }) => status === 200,
    );
    expect((await send(callers)).status).toBe(202);
    expect((await readyz(server.url)).code).toBe(200);
  });
});

describe.skipIf(engines() === undefined)('a gateway that is cut off from Kafka', () => {
  let kafka: RunningKafka;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let server: ServerProcess;
  let adminUrl: string;
  let callers: Callers;
  // One installation for both tests, because it has to recover anyway.
  beforeAll(async () => {
    kafka = await ownEngines().kafka.start();
    folder = await temporaryFolder();
    server = new ServerProcess(['gateway'], {
      KAFKA_BROKERS: kafka.url,
      REDIS_URL: 'none',
      ELASTICSEARCH_URL: 'none',
      TRIBUTARY_DATA_DIR: folder.path,
      TRIBUTARY_PARTITIONS: '1',
      TRIBUTARY_DEV_ISSUER: '1',
      TRIBUTARY_CATALOG_STALENESS: '4s',
      LOG_LEVEL: 'warn',
    });
    const [url, admin] = await Promise.all([readyAt(server), adminOf(server)]);
    adminUrl = admin;
    const issuer = openDevIssuer({ dataFolder: folder.path, devIssuerKey: '' });
    callers = await callersAt(url, await issuer.mint('a@example.com'));
  });
  afterAll(async () => {
    await server?.kill();
    await kafka?.stop();
    await folder?.remove();
  });

  const troubles: Record<string, readonly [() => Promise<void>, () => Promise<void>]> = {
    'frozen (SIGSTOP)': [() => kafka.pause(), () => kafka.resume()],
    'down (SIGKILL)': [() => kafka.kill(), () => kafka.restart()],
  };

  it.each(Object.entries(troubles))(
    'reports it, then stops trusting its catalog, and recovers by itself: Kafka is %s',
    { timeout: 120_000 },
    async (_what, [begin, end]) => {
      expect((await list(callers)).status).toBe(200);

      await begin();
      const cutOff = await eventually(
        () => readyz(adminUrl),
        ({ code, body }) => code === 503 && body.checks.catalog !== 'catching up',
      );
      expect(cutOff.body.checks.catalog).toMatch(/^nothing heard of the log for \d+ s$/);
      await expectPutOff(callers);

      await end();
      await eventually(
        () => readyz(adminUrl),
        ({ code }) => code === 200,
      );
      expect((await list(callers)).status).toBe(200);
      const sent = await eventually(
        () => send(callers),
        ({ status }) => status !== 503,
      );
      expect(sent.status).toBe(202);
    },
  );
});
