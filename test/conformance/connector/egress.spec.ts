import type { LookupAddress } from 'node:dns';
import type { ConnectorCatalog, DeliveryResult, Metrics } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  connectorOf,
  createTestConnectors,
  delivery,
  destination,
  TIMEOUT_MS,
  unhurried,
} from './suite/harness.ts';
import { type RecordingServer, startRecordingServer } from './suite/recording-server.ts';
import { WEBHOOK_SECRET } from './webhook/harness.ts';

const REFUSED: DeliveryResult = { outcome: 'dead', reason: 'address not allowed' };
const NOT_REACHED: DeliveryResult = {
  outcome: 'retry',
  reason: 'the name has no address that may be reached',
};
const at = (...addresses: string[]): LookupAddress[] =>
  addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

describe('the egress guard of a webhook', () => {
  let server: RecordingServer;
  const open: ConnectorCatalog[] = [];
  beforeEach(async () => {
    server = await startRecordingServer();
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((connectors) => connectors.close()));
    await server.close();
  });

  const create = (options: Parameters<typeof createTestConnectors>[0] = {}) => {
    const connectors = createTestConnectors(options);
    open.push(connectors);
    return connectors;
  };
  const post = async (connectors: ConnectorCatalog, host: string, scheme = 'http') => {
    const settings = { url: `${scheme}://${host}:${server.port}/`, secret: WEBHOOK_SECRET };
    const connector = connectorOf(connectors, 'webhook');
    return (await connector.deliver(destination(settings), [delivery()], unhurried))[0];
  };
  const untouched = () => expect(server.connections.taken).toBe(0);

  const NOTATIONS = [
    ...'127.0.0.1 127.1 127.0.1 127.0.0.1. 2130706433 017700000001 0177.0.0.1 0x7f000001'.split(' '),
    ...'0x7f.0x0.0x0.0x1 0x7F.1 %31%32%37.0.0.1 ①②⑦.⓪.⓪.① １２７.０.０.１ 127。0。0。1'.split(' '),
    ...'[0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:127.0.0.1]'.split(' '),
    ...'[::127.0.0.1] [64:ff9b::127.0.0.1] [2002:7f00:1::] 10.0.0.1 172.16.0.1 192.168.0.1'.split(' '),
    ...'169.254.169.254 0xa9fea9fe 100.100.100.200 168.63.129.16 [fd00:ec2::254] [fe80::1]'.split(' '),
    ...'0 0.0.0.0 [::1] 224.0.0.1 255.255.255.255'.split(' '),
  ];
  it.each(NOTATIONS)('refuses %s, with http and with https', async (host) => {
    const connectors = create();
    expect(await post(connectors, host)).toEqual(REFUSED);
    expect(await post(connectors, host, 'https')).toEqual(REFUSED);
    untouched();
  });

  it.each(['localhost', 'LOCALHOST'])('refuses %s as the system resolves it', async (host) => {
    expect(await post(create(), host)).toEqual(REFUSED);
    untouched();
  });

  it('refuses localhost with a dot at its end, whether the system resolves it or not', async () => {
    expect(await post(create(), 'localhost.')).not.toMatchObject({ outcome: 'delivered' });
    untouched();
  });

  it('allows configured ranges, for names and literal addresses', async () => {
    const connectors = create({ egressAllow: ['127.0.0.0/8'], resolve: async () => at('127.0.0.1') });
    expect(await post(connectors, '127.0.0.1')).toMatchObject({ outcome: 'delivered' });
    expect(await post(connectors, 'name.example')).toMatchObject({ outcome: 'delivered' });
    expect(await post(connectors, '10.0.0.1')).toEqual(REFUSED);
    expect(await post(connectors, '[::1]')).toEqual(REFUSED);
  });

  it('omits the refused ones of several addresses', async () => {
    const asked: string[] = [];
    const connectors = create({
      egressAllow: ['127.0.0.1/32'],
      resolve: async (hostname) => {
        asked.push(hostname);
        return at('::1', '10.0.0.1', '127.0.0.1');
      },
    });
    expect(await post(connectors, 'name.example')).toMatchObject({ outcome: 'delivered' });
    expect(asked).toEqual(['name.example']);
  });

  it('resolves a name once for each connection, so that it cannot change between check and use', async () => {
    const answers = [at('127.0.0.1'), at('10.0.0.1')];
    let asked = 0;
    const resolve = async () => answers[asked++] ?? [];
    const options = { egressAllow: ['127.0.0.1/32'], resolve };
    expect(await post(create(options), 'rebinding.example')).toMatchObject({ outcome: 'delivered' });
    expect(asked).toBe(1);
    // A new connection resolves again, and the new address is checked.
    expect(await post(create(options), 'rebinding.example')).toEqual(NOT_REACHED);
    expect(asked).toBe(2);
    expect(server.connections.taken).toBe(1);
  });

  it('connects to the address that was checked, and not to another one of the system resolver', async () => {
    const connectors = create({ egressAllow: ['127.0.0.0/8'], resolve: async () => at('127.0.0.2') });
    const elsewhere = await post(connectors, 'localhost');
    expect(elsewhere).toMatchObject({ outcome: 'retry', reason: 'connection refused' });
    untouched();
  });

  it('times out a name server that hangs', async () => {
    const connectors = create({ resolve: () => new Promise(() => {}), timeoutMs: TIMEOUT_MS });
    expect(await post(connectors, 'slow.example')).toMatchObject({ outcome: 'retry' });
  });

  it('counts its refusals', async () => {
    const counted: string[] = [];
    const metrics: Metrics = {
      count: (name) => counted.push(name),
      gauge() {},
      removeGauge() {},
      observe() {},
    };
    const connectors = create({ metrics, resolve: async () => at('10.0.0.1') });
    await post(connectors, '127.0.0.1');
    await post(connectors, 'name.example');
    expect(counted).toEqual(['tributary_egress_refused_total', 'tributary_egress_refused_total']);
  });
});
