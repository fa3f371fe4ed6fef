// Runs alone: it compares how long things take beside an attack and without.
import { promisify } from 'node:util';
import { gunzip, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { type OidcProvider, startOidcProvider } from '../../helpers/oidc-provider.ts';
import {
  completed,
  connectorOf,
  createTestConnectors,
  delivery,
  descriptionOf,
  destination,
} from './harness.ts';
import { servePlaces } from './hostile-process.ts';

const EACH = 10;
const PROBES = 20;
const TIMEOUT_MS = 2_000;
/** What a machine that others keep busy adds. */
const SLACK_MS = 250;
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

/** Milliseconds that most sign-ins of people with new tokens take, and the inflation of a body: both use the threads. */
async function latencies() {
  const signIns: number[] = [];
  const bodies: number[] = [];
  for (let n = 0; n < PROBES; n++) {
    const token = await provider.signIn({ sub: `person-${n}` });
    let began = performance.now();
    expect((await new InjectClient(gateway.app, token).call('GET', '/workspaces')).status).toBe(200);
    signIns.push(performance.now() - began);
    began = performance.now();
    await inflate(BODY);
    bodies.push(performance.now() - began);
  }
  const p90 = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length * 0.9)] ?? Infinity;
  return { signIn: p90(signIns), body: p90(bodies) };
}

it('a hostile destination stopped sign-in and compressed bodies for everybody: ten of each kind do not', async () => {
  const { places, close } = await servePlaces(EACH);
  onTestFinished(close);
  const connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs: TIMEOUT_MS });
  const stop = new AbortController();
  await latencies();
  const before = await latencies();

  const attacks = places.map(async ({ place: { type, settings }, port }) => {
    const connector = connectorOf(connectors, type);
    const where = destination(completed(descriptionOf(type), settings(port)));
    while (!stop.signal.aborted) {
      await Promise.all([
        connector.test(where, { signal: stop.signal }),
        connector.deliver(where, [delivery()], { signal: stop.signal }),
      ]);
      // A destination that fails is tried again later, and its circuit opens.
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  });
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
