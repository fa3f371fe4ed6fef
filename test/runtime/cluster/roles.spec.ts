import { connect, createServer } from 'node:net';
import { STAGE_NAMES } from '@tributary/processors';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { openEntries, temporaryFolder } from '../../helpers/folder.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

const isThere = engines() !== undefined;
const DAY_MS = 24 * 60 * 60 * 1000;
/** Kafka's number of a topic among its resources. */
const TOPIC_RESOURCE = 2;
const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Where both roles use the same code, the short form tests one. */
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
  /** Changes a topic as another administrator would. */
  const alterTopic = (name: string, settings: Readonly<Record<string, string>>) =>
    withAdmin(engines()?.kafkaBrokers ?? '', (admin) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [
          {
            type: TOPIC_RESOURCE,
            name: `${prefix}${name}`,
            configEntries: Object.entries(settings).map(([name, value]) => ({ name, value })),
          },
        ],
      }),
    );
  /** The address of its health endpoints, which answer before it is ready. */
  const address = async (server: ServerProcess) =>
    (await server.logged(/"url":"([^"]+)","message":"admin port open"/))[1] ?? '';
  const status = async (url: string) => (await fetch(url)).status;

  it('topics: creates missing ones and names existing ones', async () => {
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

  it('topics: states in a sentence that they are laid out otherwise', async () => {
    const run = await ranHere(['topics'], { ...environment, TRIBUTARY_PARTITIONS: '3' });
    expect(run.code).toBe(1);
    expect(run.log).toContain(`tributary topics: `);
    expect(run.log).toContain(`${prefix}events.production has 2 partitions, not 3`);
  });

  it.each(eitherOf('gateway', 'processor'))(
    '%s: states in a sentence that the topics are laid out otherwise',
    async (role) => {
      const server = start([role], { TRIBUTARY_PARTITIONS: '3' });
      expect(await server.ended()).toBe(1);
      expect(server.log).toContain(`tributary ${role}: `);
      expect(server.log).toContain(`${prefix}events.production has 2 partitions, not 3`);
    },
  );

  it('topics --print: prints every topic, also while Kafka does not answer', async () => {
    const run = await ranHere(['topics', '--print', '--format', 'strimzi'], {
      ...environment,
      KAFKA_BROKERS: `127.0.0.1:${await freePort()}`,
    });
    expect(run.code).toBe(0);
    for (const name of ['catalog', 'events.production', 'stages.positions'])
      expect(run.output).toContain(`${prefix}${name}`);
  });

  it.each(eitherOf('gateway', 'processor'))(
    '%s: a catalog that Kafka would delete after 3 days was lost for good: refuses to start until the topic is altered',
    async (role) => {
      await alterTopic('catalog', { 'retention.ms': String(3 * DAY_MS), 'cleanup.policy': 'delete' });
      await alterTopic('events.production', { 'retention.ms': String(DAY_MS) });
      const server = start([role]);
      expect(await server.ended()).toBe(1);
      expect(server.log).toContain(`tributary ${role}: Kafka would delete the catalog: `);
      expect(server.log).toContain(`${prefix}catalog`);
      const altered = await ranHere(['topics'], environment);
      expect(altered.code).toBe(0);
      expect(altered.output).toMatch(new RegExp(`^altered {2}.*${prefix}catalog.*retention\\.ms`, 'm'));
      expect(altered.output).toMatch(
        new RegExp(`^altered {2}.*${prefix}events\\.production.*retention\\.ms`, 'm'),
      );
      expect((await ranHere(['topics'], environment)).output).not.toContain('altered');
    },
  );

  it('processor: did not start without a schema registry; runs the given stages, and no other', async () => {
    const server = start(['processor', '--stages', 'live,history'], {
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${await freePort()}`,
    });
    const url = await readyAt(server);
    expect(server.log).toContain('records for public topics wait until the schema registry answers');
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
    expect([...stages].sort()).toEqual(['history', 'live']);
    const figures = await scrape(adminUrl);
    expect(figures).toMatch(
      /^tributary_build_info\{version="[^"]+",commit="[0-9a-f]{12}",node="24\.[^"]+",role="processor"\} 1$/m,
    );
    expect(figures).toContain('tributary_engine_up{engine="redis",part="stages"} 1\n');
    expect(await status(`${url}/api/v1/workspaces`)).toBe(404);
    expect(await server.stop()).toBe(0);
    expect(openEntries(folder.path)).toEqual([]);
  });

  it('positions: prints where stages are, and sets a lost position beside existing ones', async () => {
    const rowsOfLive = async () => {
      const run = await ranHere(['positions'], environment);
      expect(run.code).toBe(0);
      const [head, ...rows] = run.output
        .trimEnd()
        .split('\n')
        .map((line) => line.trimEnd().split(/ +/));
      expect(head).toEqual(['stage', 'partition', 'group', 'recorded', 'end']);
      return rows.filter(([stage, of]) => stage === 'live' && of?.startsWith('events.production/'));
    };
    const topic = 'events.production';
    await withAdmin(engines()?.kafkaBrokers ?? '', (admin) =>
      admin.setOffsets({
        groupId: `${prefix}live`,
        topic: `${prefix}${topic}`,
        partitions: [{ partition: 1, offset: '0' }],
      }),
    );
    expect(await rowsOfLive()).toEqual([
      ['live', `${topic}/0`, 'lost', '-', '0'],
      ['live', `${topic}/1`, '0', '-', '0'],
    ]);
    const set = ['positions', '--stage', 'live', '--topic', topic, '--to', 'end'];
    expect(await ranHere([...set, '--partition', '1'], environment)).toMatchObject({
      code: 1,
      output: `kept     ${topic}/1 of live: its consumer group has 0\n`,
    });
    expect(await ranHere(set, environment)).toMatchObject({
      code: 0,
      output: `set      ${topic}/0 of live to 0\nkept     ${topic}/1 of live: its consumer group has 0\n`,
    });
    expect((await rowsOfLive()).map(([, , group, recorded]) => [group, recorded])).toEqual([
      ['lost', '0'],
      ['0', '-'],
    ]);
  });

  it.each([
    [['--stage', 'live'], '--stage, --topic and --to go together'],
    [['--stage', 'cont', '--topic', 'events.production', '--to', 'end'], 'no stage "cont"'],
    [['--stage', 'live', '--topic', 'events.prod', '--to', 'end'], 'no topic "events.prod"'],
    [
      ['--stage', 'live', '--topic', 'events.production', '--to', 'yesterday'],
      '--to is first, end, an offset',
    ],
    [['--stage', 'live', '--topic', 'events.production', '--to', 'end', '--partition', '-1'], '--partition'],
  ])('positions: refuses %j', async (options, message) => {
    const run = await ranHere(['positions', ...options], environment);
    expect(run.code).toBe(2);
    expect(run.log).toContain(message);
  });

  it('gateway: a stage that no process runs had no lag; reports every stage by the brokers, also where none runs', async () => {
    const gateway = start(['gateway']);
    const url = await readyAt(gateway);
    const { producer } = await openWorkspace(url, folder.path, 'Unattended');
    await producer.post('./events/track', { event: 'Waits', user_id: 'u' });
    const adminUrl = await adminOf(gateway);
    const validate = '{stage="validate",topic="events.production",partition="[01]"}';
    const text = await eventually(
      () => scrape(adminUrl),
      (found) => new RegExp(`^tributary_stage_lag_records${validate} 1$`, 'm').test(found),
    );
    for (const stage of STAGE_NAMES) expect(text).toContain(`tributary_stage_members{stage="${stage}"} 0\n`);
    expect(text).toMatch(new RegExp(`^tributary_stage_lag_seconds${validate} [0-9.]*[1-9]`, 'm'));
    expect(text).toMatch(/^tributary_stage_partitions\{stage="validate"\} 2$/m);
    const { code, output } = await ranHere(['stages', '--over', '1'], environment);
    expect(code).toBe(0);
    expect(output).toMatch(/^validate +2 topics +2 +0 +1 +\d+s +0 +0 +never +1?$/m);
    expect(output).toMatch(/^ +events\.production +2 +1 +\d+s +[01]: 1, \d+s$/m);
    expect(await gateway.stop()).toBe(0);
  });

  it('gateway: starts without Redis, Elasticsearch and a schema registry, accepts events, and answers 503 for their routes', async () => {
    const server = start(['gateway'], {
      REDIS_URL: `redis://127.0.0.1:${await freePort()}`,
      ELASTICSEARCH_URL: `http://127.0.0.1:${await freePort()}`,
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${await freePort()}`,
    });
    const url = await readyAt(server);
    expect(server.log).toContain('records for public topics wait until the schema registry answers');
    const { owner, producer } = await openWorkspace(url, folder.path, 'W');
    const sent = await producer.call('POST', './events/track', { event: 'E', user_id: 'u' });
    expect(sent.status).toBe(202);
    const volume = await owner.call('GET', './event-volume');
    expect(volume).toMatchObject({ status: 503, body: { error: 'unavailable' } });
    expect(volume.headers['retry-after']).toMatch(/^\d+$/);
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

  it.each(eitherOf('gateway', 'processor'))(
    '%s: waits for Kafka, alive and not ready, and starts once it is there',
    async (role) => {
      const port = await freePort();
      const server = start([role], { KAFKA_BROKERS: `127.0.0.1:${port}` });
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
    },
  );

  /** A bootstrap address in front of the run's broker, which advertises its own address. */
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
    '%s: ends with a sentence once the time is over',
    async (role) => {
      const folder = await temporaryFolder();
      onTestFinished(() => folder.remove());
      const server = new ServerProcess([role], {
        KAFKA_BROKERS: `127.0.0.1:${await freePort()}`,
        REDIS_URL: 'none',
        ELASTICSEARCH_URL: 'none',
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

  it('processor: refuses an unknown stage and names the existing ones', async () => {
    const run = await ranHere(['processor', '--stages', 'validate,rout'], {});
    expect(run.code).toBe(2);
    expect(run.log).toMatch(
      /there is no "rout"; there are validate, validate\.slow, funnel, .*deliver\.retry/,
    );
  });
});
