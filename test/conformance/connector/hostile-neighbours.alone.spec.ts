// Runs alone: it compares latencies with and without an attack.
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { type OidcProvider, startOidcProvider } from '../../helpers/oidc-provider.ts';
import { serveEndpoints } from './programs/hostile-process.ts';
import {
  completed,
  connectorOf,
  createTestConnectors,
  delivery,
  descriptionOf,
  destination,
} from './suite/harness.ts';

const EACH = 10;
const PROBES = 20;
/** The minimum time that the gateway reserves for the turn of a connection test, ms. */
const TURN_MS = 400;
const TIMEOUT_MS = 2_000;
/** Tolerance for a machine shared with other work. */
const SLACK_MS = 500;
const inflate = promisify(gunzip);
const BODY = gzipSync(Buffer.alloc(100_000, '{"some":"body"}'));

let provider: OidcProvider;
let gateway: TestGateway;
beforeAll(async () => {
  provider = await startOidcProvider();
  const env = { TRIBUTARY_ISSUERS: JSON.stringify([provider.settings]) };
  gateway = await openTestGateway({ env });
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
});

async function signIn(): Promise<number> {
  const token = await provider.signIn({ sub: 'person' });
  return (await new Client(inProcess(gateway.app), token).call('GET', '/workspaces')).status;
}

/**
 * Milliseconds that most sign-ins of people with new tokens take, and the inflation of a body: both use the
 * thread pool.
 */
async function latencies() {
  const signIns: number[] = [];
  const bodies: number[] = [];
  for (let n = 0; n < PROBES; n++) {
    let began = performance.now();
    expect(await signIn()).toBe(200);
    signIns.push(performance.now() - began);
    began = performance.now();
    await inflate(BODY);
    bodies.push(performance.now() - began);
  }
  const p90 = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length * 0.9)] ?? Infinity;
  return { signIn: p90(signIns), body: p90(bodies) };
}

it('a hostile destination blocked sign-in and compressed bodies for all callers: ten of each kind do not', async () => {
  const { endpoints, close } = await serveEndpoints(EACH);
  onTestFinished(close);
  const connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs: TIMEOUT_MS });
  const stop = new AbortController();
  // By then the gateway has fetched the keys of the provider.
  await expect.poll(signIn, { timeout: 30_000 }).toBe(200);
  const before = await latencies();

  const calls = endpoints.map(({ endpoint: { type, settings }, port }) => {
    const connector = connectorOf(connectors, type);
    const where = destination(completed(descriptionOf(type), settings(port)));
    return {
      test: () => connector.test(where, { signal: stop.signal }),
      deliver: () => connector.deliver(where, [delivery()], { signal: stop.signal }),
    };
  });
  const pause = (ms: number) => sleep(ms, undefined, { signal: stop.signal }).catch(() => undefined);
  const until = async (work: () => Promise<unknown>) => {
    while (!stop.signal.aborted) await work();
  };
  // As many tests at a time as the gateway allows two workspaces; deliveries as the circuit breaker admits
  // them.
  let next = 0;
  const attacks = [
    ...Array.from({ length: 8 }, () =>
      until(async () => {
        await Promise.all([calls[next++ % calls.length]?.test(), pause(TURN_MS)]);
      }),
    ),
    ...calls.map(({ deliver }) =>
      until(async () => {
        await deliver();
        await pause(5_000);
      }),
    ),
  ];
  const beside = await latencies();
  stop.abort();
  const began = performance.now();
  await Promise.all(attacks);
  await connectors.close();
  const closing = performance.now() - began;

  console.log(
    `p90 before ${JSON.stringify(before)}, beside ${JSON.stringify(beside)}, closed in ${closing.toFixed()} ms`,
  );
  expect(beside.signIn).toBeLessThan(2 * before.signIn + SLACK_MS);
  expect(beside.body).toBeLessThan(2 * before.body + SLACK_MS);
  expect(closing).toBeLessThan(3_000);
});
