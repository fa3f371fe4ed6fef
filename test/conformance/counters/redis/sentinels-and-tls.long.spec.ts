import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisDeduplicator } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort, startEngine } from '../../../engines/engine-process.ts';
import { redisArguments } from '../../../engines/redis.ts';
import { selfSignedCertificate } from '../../../helpers/certificate.ts';
import { engines } from '../../../helpers/engines.ts';
import { testMachine } from '../../../helpers/own-engines.ts';
import { PRIMARY, startRedisUnderSentinels } from '../../../helpers/redis-sentinel.ts';
import { dedupeClaim } from '../../deduplicator/suite/harness.ts';
import { PARTITION } from '../suite/harness.ts';
import { counted, countUpTo, openCounters } from './counting.ts';

const TIMEOUT_MS = 2_000;

async function answered<T>(call: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + 30_000; ; ) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Unavailable) || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

describe.skipIf(!engines())('a Redis whose primary the sentinels name', () => {
  it('fails over under load: each event is counted once, and each id has one winner', {
    timeout: 90_000,
  }, async () => {
    const redis = await startRedisUnderSentinels();
    onTestFinished(() => redis.stop());
    const access = { url: redis.url, sentinel: { primary: PRIMARY } };
    const counters = await openCounters(access, TIMEOUT_MS);
    const deduplicator = await openRedisDeduplicator({
      ...access,
      prefix: 't.',
      logger: NO_LOGGER,
      timeoutMs: TIMEOUT_MS,
      windowMs: 60_000,
    });
    onTestFinished(() => deduplicator.close());

    const ids = Array.from({ length: 200 }, (_, n) => `m${n}`);
    const claim = (by: number) =>
      answered(() => deduplicator.claim(ids.map((id, n) => dedupeClaim(id, by + n))));
    expect(await claim(0)).toEqual(ids.map(() => true));
    await countUpTo(counters, 500);
    const counting = countUpTo(counters, 3_000);
    await redis.primary.kill();
    const killedAt = performance.now();
    await answered(() => counters.applied(PARTITION));
    console.log(`answers again ${(performance.now() - killedAt).toFixed()} ms after the primary was killed`);
    await counting;
    expect(await counted(counters)).toBe(3_000);
    expect(await claim(10_000)).toEqual(ids.map(() => false));
    expect(await claim(0)).toEqual(ids.map(() => true));
  });
});

describe.skipIf(!engines())('a Redis that is reached by TLS', () => {
  it('is trusted by the authority that is configured, and by no other', async () => {
    const { url, cert } = await startRedisWithTls();
    const counters = await openCounters({ url, ca: cert }, TIMEOUT_MS);
    await countUpTo(counters, 5);
    expect(await counted(counters)).toBe(5);

    const stranger = await openCounters({ url }, TIMEOUT_MS);
    await expect(stranger.applied(PARTITION)).rejects.toThrow(Unavailable);
  });
});

/** A server with a certificate that signs itself, and no port without TLS. */
async function startRedisWithTls() {
  const { key, cert } = selfSignedCertificate();
  const files = await mkdtemp(join(tmpdir(), 'tributary-redis-tls-'));
  await writeFile(join(files, 'key.pem'), key);
  await writeFile(join(files, 'cert.pem'), cert);
  const port = await freePort();
  const tls = {
    port: '0',
    'tls-port': String(port),
    'tls-key-file': join(files, 'key.pem'),
    'tls-cert-file': join(files, 'cert.pem'),
    'tls-auth-clients': 'no',
  };
  const tlsArguments = Object.entries(tls).flatMap(([name, value]) => [`--${name}`, value]);
  const machine = testMachine();
  const url = `rediss://127.0.0.1:${port}`;
  const running = await startEngine({
    name: 'redis',
    logFolder: undefined,
    prepare: async (folder) => ({
      command: 'redis-server',
      args: [...redisArguments(folder, port, {}), ...tlsArguments],
      url,
      env: machine.engineEnv,
      isReady: () => answersTls(port),
      missing: 'install Redis 7 with TLS (Debian: apt-get install redis-server)',
    }),
  });
  onTestFinished(async () => {
    await running.stop();
    await rm(files, { recursive: true, force: true });
  });
  return { url, cert };
}

async function answersTls(port: number): Promise<boolean> {
  const { connect } = await import('node:tls');
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', reject);
  });
}
