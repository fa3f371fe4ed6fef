// Runs alone in the long form: it installs Debian's packages and ours, and builds an image of them.
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import { Client } from '../helpers/client.ts';
import { engines, freshPrefix } from '../helpers/engines.ts';
import { removePrefix } from '../helpers/remove-prefix.ts';
import { Container, type ContainerOptions } from './container.ts';
import { type BuiltImage, buildImage, obstacleToImages } from './image.ts';

const obstacle = obstacleToImages();
if (obstacle !== undefined) console.warn(`The image is SKIPPED: ${obstacle}`);

const root = new URL('../../', import.meta.url);
const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string };
const MEBIBYTE = 1024 * 1024;
const USER = '10001';

describe.runIf(obstacle === undefined)('the image', () => {
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  let image: BuiltImage;
  beforeAll(() => {
    image = buildImage({ version, commit });
  }, 1_800_000);
  afterAll(() => image?.remove());

  const start = (
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    more: Pick<ContainerOptions, 'entrypoint' | 'isEmptyDir'> = {},
  ) => {
    const folder = mkdtempSync(join(tmpdir(), 'tributary-container-'));
    const container = new Container(image, args, { folder, env, ...more });
    onTestFinished(() => container.remove());
    return container;
  };
  const shell = async (script: string) => {
    const container = start(['-c', script], {}, { entrypoint: ['sh'] });
    expect(await container.ended(), container.log).toBe(0);
    return container.output.trim();
  };

  it('is below 250 MB compressed, and lists its contents', async () => {
    console.info(`The image is ${(image.compressedBytes / MEBIBYTE).toFixed(1)} MiB compressed`);
    expect(image.compressedBytes).toBeLessThan(250 * 1_000_000);
    expect(image.config.Labels).toMatchObject({
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.revision': commit,
    });
    const container = start(['--version']);
    expect(await container.ended()).toBe(0);
    expect(container.output).toBe(`${version} (${commit.slice(0, 12)})\n`);
  });

  it('runs as a user without rights, who can write to the volume alone', async () => {
    expect(await shell('id -u; id -g')).toBe(`${USER}\n${USER}`);
    const writable = await shell(
      'for f in / /app /app/node_modules /etc /usr /var /tmp /data; do touch $f/x 2>/dev/null && echo $f; done; true',
    );
    expect(writable).toBe('/data');
    const owned = await shell('find /app ! -user root -o -perm -o=w ! -type l');
    expect(owned).toBe('');
  });

  it('holds no tests, no development packages and nothing for another platform', async () => {
    const output = await shell(
      'cd /app; ls node_modules/.bin | grep -x -e vitest -e tsc -e biome; find core gateway processors connectors infra -name "*.spec.ts" -o -name "*.fixture.ts"; find . -name "*.d.ts" -o -name "*.map" -o -name "*.node" | grep -v "linux-$(node_modules/.bin/node -p process.arch)"; true',
    );
    expect(output).toBe('');
  });

  it('exits with 2 for settings that are wrong, and with 1 where Kafka does not answer', async () => {
    const wrong = start(['gateway'], { KAFKA_BROKERS: 'nowhere' });
    expect(await wrong.ended()).toBe(2);
    expect(wrong.log).toContain('KAFKA_BROKERS must be host:port');
    const away = start(['topics'], {
      KAFKA_BROKERS: `127.0.0.1:${await freePort()}`,
      TRIBUTARY_START_TIMEOUT: '2s',
    });
    expect(await away.ended()).toBe(1);
  });

  it('is everything in one process: an event is answered, transformed, counted, and SIGTERM ends it with 0', async () => {
    const [port, adminPort] = [await freePort(), await freePort()];
    const container = start(['dev'], {
      HOST: '127.0.0.1',
      PORT: String(port),
      TRIBUTARY_ADMIN_PORT: String(adminPort),
    });
    const base = `http://127.0.0.1:${port}`;
    const [, workspaceId = ''] = await container.printed(/workspace +([0-9a-f-]{36})/);
    const [, key = ''] = await container.printed(/write key +(\S+)/);
    const [, token = ''] = await container.printed(/ID token +(\S+)/);
    await runsEvents(new Client(base, token, workspaceId), key, container);
    const metrics = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
    expect(metrics).toContain(`tributary_build_info{version="${version}",commit="${commit.slice(0, 12)}"`);
    expect(container.exec('sh', '-c', 'cat /proc/[0-9]*/stat').match(/\) Z /g)).toBeNull();
    expect(container.exec('cat', '/proc/1/comm').trim()).toBe('tini');
    const health = /HEALTHCHECK .* CMD (\[.*\])/.exec(
      readFileSync(new URL('infra/deploy/Dockerfile', root), 'utf8'),
    );
    container.exec(
      ...(JSON.parse(health?.[1] ?? '[]') as string[]).map((part) => part.replaceAll('8080', String(port))),
    );
    expect(await container.stop()).toBe(0);
  });

  it.skipIf(engines() === undefined)(
    'is a gateway and a processor on Kafka, whose topics it made',
    async () => {
      const found = engines();
      if (found === undefined) throw new Error('there are no engines');
      const prefix = freshPrefix();
      onTestFinished(() => removePrefix(prefix));
      const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const shared = {
        HOST: '127.0.0.1',
        KAFKA_BROKERS: found.kafkaBrokers,
        REDIS_URL: found.redisUrl,
        ELASTICSEARCH_URL: found.elasticsearchUrl,
        TRIBUTARY_PREFIX: prefix,
        TRIBUTARY_PARTITIONS: '2',
        TRIBUTARY_CREATE_TOPICS: 'false',
        TRIBUTARY_DEV_ISSUER: 'true',
        TRIBUTARY_DEV_ISSUER_KEY: JSON.stringify(privateKey.export({ format: 'jwk' })),
        TRIBUTARY_SECRET_KEYS: `k1:${randomBytes(32).toString('base64')}`,
        TRIBUTARY_DATA_DIR: '/data/tributary',
        TRIBUTARY_DRAIN: '1s',
      };
      const topics = start(['topics'], shared);
      expect(await topics.ended()).toBe(0);
      expect(topics.output).toContain(`created  ${prefix}catalog`);
      const pod = { isEmptyDir: true };
      const port = await freePort();
      const gateway = start(['gateway'], { ...shared, PORT: String(port), TRIBUTARY_ADMIN_PORT: '0' }, pod);
      const processor = start(['processor'], { ...shared, PORT: '0', TRIBUTARY_ADMIN_PORT: '0' }, pod);
      await gateway.printed(/gateway ready/);
      await processor.printed(/processor ready/);
      const issuer = start(['token', '--email', 'ada@example.com'], shared);
      expect(await issuer.ended()).toBe(0);
      const person = new Client(`http://127.0.0.1:${port}`, issuer.output.trim());
      const { id: workspaceId } = await person.post<{ id: string }>('/workspaces', { name: 'Mine' });
      const client = person.with({ workspaceId });
      const { key: writeKey } = await client.post<{ key: string }>('./event-keys', {
        name: 'site',
        environment: 'production',
      });
      await runsEvents(client, writeKey, processor);
      for (const { log } of [gateway, processor]) expect(log).not.toContain('data folder');
      expect(await Promise.all([gateway.stop(), processor.stop()])).toEqual([0, 0]);
    },
  );
});

/** Sends an event through a transformation to files, and waits until `worker` has written it and it is counted. */
async function runsEvents(client: Client, key: string, worker: Container): Promise<void> {
  const event = (n: number) => ({ type: 'track', event: 'Counted', user_id: 'ada', properties: { n } });
  const transformation = await client.post<{ id: string; status: string }>('./event-transformations', {
    name: 'Double',
    source_code: 'function transform(event) { event.properties.n *= 2; return event; }',
    test_input: event(2),
    test_output: event(4),
  });
  expect(transformation.status).toBe('active');
  const destination = await client.post<{ id: string }>('./destinations', {
    name: 'Files',
    type: 'ndjson',
    settings: { folder: 'out' },
  });
  await client.post('./event-forwarding-rules', {
    name: 'All',
    destination_id: destination.id,
    transformation_id: transformation.id,
  });
  await client
    .with({ token: key })
    .post('./events/track', { event: 'Counted', user_id: 'ada', properties: { n: 21 } });
  await expect
    .poll(() => worker.exec('find', '/data', '-path', '*/ndjson/*', '-type', 'f', '-exec', 'cat', '{}', '+'))
    .toContain('"n":42');
  await expect
    .poll(async () => JSON.stringify(await client.get('./event-volume?hours=24')))
    .toContain('"event_name":"Counted"');
}
