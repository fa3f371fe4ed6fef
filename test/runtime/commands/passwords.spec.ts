import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { Planted } from '../../helpers/planted.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

/** A port without a server. */
const NOBODY = '127.0.0.1:1';

async function start(command: string, env: Readonly<Record<string, string>>): Promise<ServerProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-passwords-'));
  const server = new ServerProcess([command], { TRIBUTARY_DATA_DIR: folder, LOG_LEVEL: 'trace', ...env });
  onTestFinished(async () => {
    await server.kill();
    await rm(folder, { recursive: true, force: true });
  });
  return server;
}

it('a password in the address of an engine that is down is in no log, figure or report', async () => {
  const planted = new Planted();
  const server = await start('dev', {
    REDIS_URL: `redis://someone:${planted.make('the password')}@${NOBODY}`,
  });
  const adminUrl = (await server.printed(/admin port\s+(\S+)/))[1] ?? '';
  const readiness = await eventually(
    async () => (await fetch(`${adminUrl}/readyz`)).text(),
    (text) => text.includes('does not answer'),
  );
  const metrics = await scrape(adminUrl);
  expect(server.log).toMatch(/Redis does not answer/);
  expect(planted.in([server.log, server.output, readiness, metrics].join('\n'))).toEqual([]);
});

it('a password for brokers that are down is in no log, and in no last word', async () => {
  const planted = new Planted();
  const server = await start('gateway', {
    KAFKA_BROKERS: NOBODY,
    KAFKA_SASL_MECHANISM: 'plain',
    KAFKA_SASL_USERNAME: 'someone',
    KAFKA_SASL_PASSWORD: planted.make('the password'),
    REDIS_URL: 'none',
    ELASTICSEARCH_URL: 'none',
    TRIBUTARY_DEV_ISSUER: '1',
    TRIBUTARY_START_TIMEOUT: '1s',
  });
  expect(await server.ended()).toBe(1);
  expect(server.log).toMatch(/the catalog cannot be read/);
  expect(planted.in(server.log + server.output)).toEqual([]);
});

it('a refused setting is named, and its value is not', async () => {
  const planted = new Planted();
  const secret = planted.make('a secret');
  const server = await start('dev', { TRIBUTARY_SECRET_KEYS: `k:${secret}` });
  expect(await server.ended()).not.toBe(0);
  expect(server.log + server.output).toContain('TRIBUTARY_SECRET_KEYS');
  expect(planted.in(server.log + server.output)).toEqual([]);
  for (const [command, env] of [
    [['secrets', 'rotate'], { TRIBUTARY_SECRET_KEYS: secret }],
    [['dev'], { REDIS_URL: `redis+ssl://u:${secret}@r:6379` }],
    [['dev'], { TRIBUTARY_DEV_ISSUER_KEY: secret }],
  ] as const) {
    const run = await ranHere(command, env);
    expect(run.code).not.toBe(0);
    expect(run.log + run.output).toContain(Object.keys(env)[0]);
    expect(planted.in(run.log + run.output)).toEqual([]);
  }
});
