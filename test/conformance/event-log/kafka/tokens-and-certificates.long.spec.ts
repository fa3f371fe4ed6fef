import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type KafkaConnection, renewedTokens, requestToken } from '@tributary/infra';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { enginesOf, type KafkaSecurity, type RunningKafka } from '../../../engines/index.ts';
import { kafkaProgram } from '../../../engines/kafka.ts';
import { runTool } from '../../../engines/programs.ts';
import { selfSignedCertificate } from '../../../helpers/certificate.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { testMachine } from '../../../helpers/own-engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { numbered, numbers, valuesOf } from '../suite/log-contents.ts';
import { copyStage, runThrough } from '../suite/stages.ts';
import { openQuickly, timed, topicsOf } from './installation/installation.ts';

const AUDIENCE = 'kafka';
const CLIENT = { clientId: 'tributary', clientSecret: 'of the tests' };
/** Life of a token, and of a session without a new one at most. */
const LIFE_S = 8;
const SESSION_MS = 6_000;
const LISTENER = 'listener.name.sasl';
const HANDLER = 'org.apache.kafka.common.security.oauthbearer';

interface Issuer {
  readonly url: string;
  readonly tokenUrl: string;
  /** Tokens that were issued. */
  readonly issued: number;
  close(): void;
}

/** Issues signed tokens for client credentials, and publishes its key. */
async function startIssuer(): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  const key = { ...(await exportJWK(publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' };
  const basic = `Basic ${Buffer.from(`${CLIENT.clientId}:of%20the%20tests`).toString('base64')}`;
  let issued = 0;
  const server = createServer(async (request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.url === '/jwks') return void response.end(JSON.stringify({ keys: [key] }));
    if (request.headers.authorization !== basic)
      return void response.writeHead(401).end(JSON.stringify({ error: 'invalid_client' }));
    issued++;
    const token = await new SignJWT({ scope: 'kafka' })
      .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
      .setSubject(CLIENT.clientId)
      .setIssuer(url)
      .setAudience(AUDIENCE)
      .setIssuedAt()
      .setExpirationTime(`${LIFE_S}s`)
      .sign(privateKey);
    response.end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: LIFE_S }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    tokenUrl: `${url}/token`,
    get issued() {
      return issued;
    },
    close: () => void server.close(),
  };
}

describe.skipIf(engines() === undefined)('a Kafka that asks for tokens, or for a certificate', () => {
  const trusted = selfSignedCertificate();
  let folder: string;
  let issuer: Issuer;
  let kafka: RunningKafka;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tributary-tokens-'));
    issuer = await startIssuer();
    const authorities = join(folder, 'clients.pem');
    await writeFile(authorities, trusted.cert);
    const jwks = `${issuer.url}/jwks`;
    const machine = testMachine();
    const { kafka: engine } = enginesOf({
      ...machine,
      javaFlags: [...machine.javaFlags, `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${jwks}`],
    });
    kafka = await engine.start({
      secured: true,
      settings: {
        [`${LISTENER}.sasl.enabled.mechanisms`]: 'OAUTHBEARER',
        [`${LISTENER}.oauthbearer.sasl.jaas.config`]: `${HANDLER}.OAuthBearerLoginModule required;`,
        [`${LISTENER}.oauthbearer.sasl.server.callback.handler.class`]: `${HANDLER}.OAuthBearerValidatorCallbackHandler`,
        [`${LISTENER}.oauthbearer.connections.max.reauth.ms`]: SESSION_MS,
        'sasl.oauthbearer.jwks.endpoint.url': jwks,
        // The default validator of Kafka 4.1.1 takes tokens without looking at their signature.
        'sasl.oauthbearer.jwt.validator.class': `${HANDLER}.BrokerJwtValidator`,
        'sasl.oauthbearer.expected.audience': AUDIENCE,
        'sasl.oauthbearer.expected.issuer': issuer.url,
        'listener.name.tls.ssl.client.auth': 'required',
        'listener.name.tls.ssl.truststore.type': 'PEM',
        'listener.name.tls.ssl.truststore.location': authorities,
      },
    });
  });
  afterAll(async () => {
    await kafka?.stop();
    issuer?.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function open(
    connectionOf: (security: KafkaSecurity) => Partial<KafkaConnection>,
    appendTimeoutMs?: number,
  ) {
    if (!kafka.security) throw new Error('it has no secured listeners');
    const log = await openQuickly({
      at: { brokers: [kafka.url], ...connectionOf(kafka.security) },
      prefix: freshPrefix(),
      topics: topicsOf(1),
      ...(appendTimeoutMs === undefined ? {} : { appendTimeoutMs }),
    });
    onTestFinished(() => log.close());
    return log;
  }

  const withToken =
    (token: () => Promise<string>) =>
    ({ sasl }: KafkaSecurity): Partial<KafkaConnection> => ({
      brokers: [sasl],
      sasl: { mechanism: 'oauthbearer', token },
    });

  it('accepts tokens of its issuer, and continues when they and the sessions are renewed', {
    timeout: 90_000,
  }, async () => {
    const credentials = { tokenUrl: issuer.tokenUrl, ...CLIENT };
    const log = await open(withToken(renewedTokens(() => requestToken(credentials))));
    await log.createTopics();
    const run = await log.run(copyStage());
    const before = issuer.issued;
    let sent = 0;
    for (const until = Date.now() + 2 * LIFE_S * 1_000; Date.now() < until; sent++) {
      await log.append(SOURCE, numbered('k', 1, sent));
      await sleep(200);
    }
    await expect.poll(() => valuesOf(log, TARGET), { timeout: 10_000 }).toEqual(numbers(sent));
    await run.stop();
    expect(before).toBe(1);
    expect(issuer.issued).toBeGreaterThanOrEqual(3);
  });

  it('states why it refuses a token of another issuer, and nothing hangs', async () => {
    const { privateKey } = await generateKeyPair('RS256');
    const forged = () =>
      new SignJWT({})
        .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
        .setSubject('mallory')
        .setIssuer(issuer.url)
        .setAudience(AUDIENCE)
        .setIssuedAt()
        .setExpirationTime('1m')
        .sign(privateKey);
    const log = await open(withToken(forged));
    const refused = {
      code: 'unavailable',
      message: expect.stringMatching(/sign-in was refused .*invalid_token/),
    };
    const took = await timed(async () => {
      await expect(log.append(SOURCE, numbered('k', 1))).rejects.toMatchObject(refused);
      await expect(log.createTopics()).rejects.toMatchObject(refused);
    });
    expect(took).toBeLessThan(15_000);
  });

  it('an issuer that is down, or refuses the client, is named', async () => {
    const wrong = { tokenUrl: issuer.tokenUrl, ...CLIENT, clientSecret: 'wrong' };
    const log = await open(withToken(renewedTokens(() => requestToken(wrong))));
    await expect(log.append(SOURCE, numbered('k', 1))).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/no token for Kafka: .*\/token answered 401 \(invalid_client\)/),
    });
  });

  it('accepts the certificate of a client, and states when it is missing', async () => {
    const tls = ({ tls: address, ca }: KafkaSecurity) => ({ brokers: [address], tls: { ca, ...trusted } });
    const log = await open(tls);
    await log.createTopics();
    await log.append(SOURCE, numbered('k', 5));
    await runThrough(log, copyStage());
    expect(await valuesOf(log, TARGET)).toEqual(numbers(5));

    const stranger = await open(({ tls: address, ca }) => ({ brokers: [address], tls: { ca } }));
    await expect(stranger.append(SOURCE, numbered('k', 1))).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/certificate of the client \(KAFKA_TLS_CERT_FILE\)/),
    });
  });

  it('slows a client down to its quota, and fails nothing', { timeout: 90_000 }, async () => {
    // Brokers average over eleven seconds.
    const bytesPerSecond = 40_000;
    await setQuota('tributary-gateway', {
      producer_byte_rate: bytesPerSecond,
      consumer_byte_rate: bytesPerSecond,
    });
    const log = await open(() => ({ clientId: 'tributary-gateway' }));
    await log.createTopics();
    const value = JSON.stringify(randomBytes(15_000).toString('base64'));
    const append = () => log.append(SOURCE, [{ key: 'k', value, headers: {} }]);
    const took = await timed(async () => {
      for (let n = 0; n < 40; n++) await append();
    });
    const read = await timed(async () => expect(await valuesOf(log, SOURCE)).toHaveLength(40));
    console.log(
      `800 kB under a quota of 40 kB/s: written in ${took.toFixed()} ms, read in ${read.toFixed()} ms`,
    );
    expect(took).toBeGreaterThan(4_000);
  });

  async function setQuota(clientId: string, quota: Readonly<Record<string, number>>): Promise<void> {
    const machine = testMachine();
    const { java, classpath } = await kafkaProgram(machine);
    const config = Object.entries(quota).map(([name, value]) => `${name}=${value}`);
    const client = ['--entity-type', 'clients', '--entity-name', clientId];
    const args = ['--bootstrap-server', kafka.url, '--alter', '--add-config', config.join(','), ...client];
    await runTool(java, ['-XX:TieredStopAtLevel=1', '-cp', classpath, 'kafka.admin.ConfigCommand', ...args], {
      env: machine.engineEnv,
    });
  }
});
