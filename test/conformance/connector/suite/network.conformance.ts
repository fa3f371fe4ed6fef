import type { LookupAddress } from 'node:dns';
import type { ConnectorCatalog, Delivery, DeliveryResult, JsonObject } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type ConnectorHarness,
  completed,
  connectorOf,
  createTestConnectors,
  deliveries,
  delivery,
  descriptionOf,
  destination,
  type NetworkHarness,
  unhurried,
} from './harness.ts';

const REFUSED: DeliveryResult = { outcome: 'dead', reason: 'address not allowed' };
const NO_ADDRESS = 'the name has no address that may be reached';

/** The timeout of a call where a test waits for it to expire, ms. */
export const SHORT_MS = 700;
/** A thread that was saturated gives a call its time up to four times; a busy machine adds to that. */
const ENDED_WITHIN_MS = 10 * SHORT_MS;

/** Concurrent calls to one destination, below the limit. */
const AT_ONCE = 12;

/**
 * The contract of every connector that reaches its destination over a network, under connection faults.
 * `spoil` turns a delivery into one that the destination rejects for its content, where the destination
 * inspects deliveries.
 */
export function networkConformance(
  type: string,
  openHarness: () => Promise<ConnectorHarness>,
  spoil?: (delivery: Delivery) => Delivery,
) {
  const description = descriptionOf(type);
  describe(`the ${type} connector, on its connections`, () => {
    let harness: ConnectorHarness;
    let network: NetworkHarness;
    const open: ConnectorCatalog[] = [];
    beforeEach(async () => {
      harness = await openHarness();
      if (harness.network === undefined) throw new Error(`no network in the harness of ${type}`);
      network = harness.network;
    });
    afterEach(async () => {
      await Promise.all(open.splice(0).map((connectors) => connectors.close()));
      await harness.close();
    });

    const connect = (options: Parameters<typeof createTestConnectors>[0] = {}) => {
      const connectors = createTestConnectors({ ...harness.connectors, ...options });
      open.push(connectors);
      return connectorOf(connectors, type);
    };
    const destinationWith = (settings: JsonObject = harness.settings) =>
      destination(completed(description, settings));
    const receivedIds = async () => (await harness.received()).map(({ id }) => id).sort();
    /** The whole answer of a connection test that failed: it says why, and nothing that the place answered. */
    const failedTest = (reason: string) => ({
      ok: false,
      reason,
      ...(harness.showsRequest === true ? { request: expect.any(String) } : {}),
    });
    const idsOf = (sent: readonly { readonly id: string }[]) => sent.map(({ id }) => id).sort();

    it('a destination that hangs: timed out, and another destination of the kind is not delayed', async () => {
      const connector = connect({ timeoutMs: SHORT_MS });
      network.proxy.set('hang');
      const started = performance.now();
      const results = await connector.deliver(destinationWith(), deliveries(2), unhurried);
      expect(results.map(({ outcome }) => outcome)).toEqual(['retry', 'retry']);
      expect(results[0]).toMatchObject({ reason: expect.stringMatching(/timed out/) });
      expect(performance.now() - started).toBeLessThan(ENDED_WITHIN_MS);
      await expect.poll(() => network.proxy.open, { timeout: 15_000 }).toBe(0);
    });

    it('a place that hangs after it answered before: timed out, and reached again once it is back', async () => {
      const connector = connect({ timeoutMs: SHORT_MS * 2 });
      const where = destinationWith();
      await connector.deliver(where, [delivery()], unhurried);
      network.proxy.set('hang');
      const [hung] = await connector.deliver(where, [delivery()], unhurried);
      expect(hung).toMatchObject({ outcome: 'retry', reason: expect.stringMatching(/timed out/) });
      network.proxy.set('pass');
      const [back] = await connector.deliver(where, [delivery()], unhurried);
      expect(back).toMatchObject({ outcome: 'delivered' });
    });

    it('all deliveries cancelled: left at once', async () => {
      const timeoutMs = 30_000;
      const connector = connect({ timeoutMs });
      network.proxy.set('hang');
      const controller = new AbortController();
      const called = connector.deliver(destinationWith(), deliveries(2), controller);
      const tested = connector.test(destinationWith(), controller);
      await expect.poll(() => network.proxy.taken).toBeGreaterThan(0);
      const started = performance.now();
      controller.abort();
      expect(await called).toEqual(Array(2).fill({ outcome: 'retry', reason: 'stopped' }));
      expect(await tested).toEqual(failedTest('stopped'));
      expect(performance.now() - started).toBeLessThan(5_000);
    });

    it('connections that are reset: tried again, under the same id', async () => {
      const connector = connect();
      const where = destinationWith();
      const sent = deliveries(3);
      network.proxy.set('refuse');
      const failed = await connector.deliver(where, sent, unhurried);
      expect(failed.map(({ outcome }) => outcome)).toEqual(['retry', 'retry', 'retry']);
      network.proxy.set('pass');
      const again = await connector.deliver(where, sent, unhurried);
      expect(again.map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered', 'delivered']);
      expect(await receivedIds()).toEqual(idsOf(sent));
    });

    it('a response that breaks off states nothing: retried, and no delivery is missing', async () => {
      const connector = connect();
      const where = destinationWith();
      const first = delivery();
      await connector.deliver(where, [first], unhurried);
      const sent = deliveries(3);
      network.proxy.set('cut');
      const cut = await connector.deliver(where, sent, unhurried);
      expect(cut.map(({ outcome }) => outcome)).toEqual(['retry', 'retry', 'retry']);
      network.proxy.set('pass');
      const again = await connector.deliver(where, sent, unhurried);
      expect(again.map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered', 'delivered']);
      const ids = await receivedIds();
      expect([...new Set(ids)]).toEqual(idsOf([first, ...sent]));
      if (harness.idempotent) expect(ids).toHaveLength(4);
    });

    if (spoil !== undefined) {
      it('dead-letters of a batch only the refused deliveries', async () => {
        const sent = deliveries(5);
        const spoilt = sent.map((one, index) => (index === 2 ? spoil(one) : one));
        const results = await connect().deliver(destinationWith(), spoilt, unhurried);
        const outcomes = results.map(({ outcome }) => outcome);
        expect(outcomes).toEqual(['delivered', 'delivered', 'dead', 'delivered', 'delivered']);
        const ids = await receivedIds();
        expect([...new Set(ids)]).toEqual(idsOf(sent.filter((_, index) => index !== 2)));
      });
    }

    it('connection tests leave no connections behind', async () => {
      const connector = connect();
      const where = destinationWith();
      for (let n = 0; n < 8; n++) expect(await connector.test(where, unhurried)).toMatchObject({ ok: true });
      // A few connections may be kept for the next calls.
      await expect.poll(() => network.proxy.open, { timeout: 15_000 }).toBeLessThan(4);
    });

    it('calls at the same time never wait for another call’s connection', async () => {
      const connector = connect({ timeoutMs: 30_000 });
      const where = destinationWith();
      await connector.deliver(where, [delivery()], unhurried);
      network.proxy.set('hang');
      const controller = new AbortController();
      const calls = Array.from({ length: AT_ONCE }, () => connector.deliver(where, [delivery()], controller));
      const needed = network.sharesConnections ? 1 : AT_ONCE;
      await expect.poll(() => network.proxy.open).toBeGreaterThanOrEqual(needed);
      controller.abort();
      await Promise.all(calls);
    });

    it('an unused destination keeps no connection after the close', async () => {
      const connector = connect();
      await connector.deliver(destinationWith(), [delivery()], unhurried);
      await connector.close();
      await expect.poll(() => network.proxy.open, { timeout: 15_000 }).toBe(0);
    });

    describe('the addresses it may reach', () => {
      const at = (...addresses: string[]): LookupAddress[] =>
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
      const toldBy = async (host: string, options: Parameters<typeof createTestConnectors>[0]) => {
        const connector = connect(options);
        const where = destinationWith(network.at(host));
        const [result] = await connector.deliver(where, [delivery()], unhurried);
        return { result, tested: await connector.test(where, unhurried) };
      };
      const refusedTest = () => failedTest('address not allowed');

      it.each(['127.0.0.1', '10.0.0.1', '169.254.169.254', '0.0.0.0', '100.64.0.1'])(
        'the literal address %s is refused',
        async (host) => {
          expect(await toldBy(host, { egressAllow: [] })).toEqual({ result: REFUSED, tested: refusedTest() });
          expect(network.proxy.taken).toBe(0);
        },
      );

      const notReached = () => ({
        result: { outcome: 'retry', reason: NO_ADDRESS },
        tested: failedTest(NO_ADDRESS),
      });

      it.each([
        ['loopback', at('127.0.0.1')],
        ['mapped loopback', at('::ffff:127.0.0.1')],
        ['the metadata service', at('169.254.169.254')],
        ['several refused ones', at('10.0.0.1', '::1', 'fd00::1')],
      ])('a name that stands for %s was told apart from one without an address', async (_, addresses) => {
        const options = { egressAllow: [], resolve: async () => addresses };
        const told = await toldBy('looks-public.example', options);
        expect(told).toMatchObject(notReached());
        expect(network.proxy.taken).toBe(0);
      });

      it('another notation of an address is a name, and the address behind it is checked', async () => {
        const asked: string[] = [];
        const resolve = async (host: string) => {
          asked.push(host);
          return at('127.0.0.1');
        };
        const told = await toldBy('127.1', { egressAllow: [], resolve });
        // A URL already has the address; for other drivers it is a name.
        expect([
          { result: REFUSED, tested: refusedTest() },
          expect.objectContaining(notReached()),
        ]).toContainEqual(told);
        expect(network.proxy.taken).toBe(0);
      });

      it('a name that changes between check and use gains nothing', async () => {
        let asked = 0;
        // The first lookup resolves to a permitted address. A second lookup for the same connection would
        // resolve elsewhere.
        const resolve = async () => (asked++ === 0 ? at('127.0.0.1') : at('10.0.0.1'));
        const connector = connect({ egressAllow: ['127.0.0.1/32'], resolve });
        const where = destinationWith(network.at('rebinding.example'));
        expect(await connector.deliver(where, [delivery()], unhurried)).toMatchObject([
          { outcome: 'delivered' },
        ]);
        // A new connection resolves again, and the new address is checked.
        network.proxy.set('refuse');
        await connector.deliver(where, [delivery()], unhurried);
        network.proxy.set('pass');
        const [result] = await connector.deliver(where, [delivery()], unhurried);
        expect(result).toMatchObject(notReached().result);
      });

      it('a name that is not resolved is tried again', async () => {
        const resolve = () =>
          Promise.reject(Object.assign(new Error('secret.example'), { code: 'ENOTFOUND' }));
        const { result, tested } = await toldBy('nowhere.example', { resolve });
        expect(result).toMatchObject({ outcome: 'retry', reason: NO_ADDRESS });
        expect(tested).toEqual(failedTest(NO_ADDRESS));
      });
    });
  });
}
