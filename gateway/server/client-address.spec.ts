import { describe, expect, it } from 'vitest';
import { clientAddress, trustedProxies } from './addresses.ts';

const addressOf = (
  proxies: readonly string[] | number,
  remoteAddress: string | undefined,
  forwarded?: string,
) =>
  clientAddress(
    { socket: { remoteAddress }, headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded } },
    trustedProxies(proxies),
  ).text;

describe('the address of a client', () => {
  it('is the other end of the connection where no proxy is trusted', () => {
    expect(addressOf([], '203.0.113.9')).toBe('203.0.113.9');
    expect(addressOf([], '::ffff:203.0.113.9', '198.51.100.1')).toBe('203.0.113.9');
    expect(addressOf(['10.0.0.0/8'], '203.0.113.9', '198.51.100.1')).toBe('203.0.113.9');
    expect(addressOf([], undefined)).toBe('unknown');
  });

  it.each([
    ['10.1.2.3', '10.0.0.0/8'],
    ['::ffff:10.1.2.3', '10.0.0.0/8'],
    ['10.1.2.3', '::ffff:10.0.0.0/104'],
    ['10.1.2.3', '10.1.2.3'],
    ['fd00:1::7', 'fd00::/8'],
    ['fd00:1::7', 'FD00:1:0::7'],
    ['fd00:1::7', 'fd00:0::/31'],
  ])('is read of a trusted proxy, however its address and range are written: %s in %s', (proxy, range) => {
    expect(addressOf([range], proxy, '198.51.100.1, 203.0.113.9:4711')).toBe('203.0.113.9');
  });

  it.each([
    ['10.1.2.3', '10.1.2.0/25'.replace('10.1.2', '10.1.3')],
    ['10.1.2.3', '::/0'],
    ['fd01::7', 'fd00::/16'],
    ['11.0.0.1', '10.0.0.0/8'],
  ])('is that of the peer beside the range: %s, %s', (peer, range) => {
    expect(addressOf([range], peer, '203.0.113.9')).not.toBe('203.0.113.9');
  });

  it('is the last one that no trusted hop wrote', () => {
    expect(addressOf(['10.0.0.0/8'], '10.0.0.1', '1.1.1.1, 203.0.113.9, 10.0.0.2')).toBe('203.0.113.9');
    expect(addressOf(['10.0.0.0/8'], '10.0.0.1', '10.0.0.3, 10.0.0.2')).toBe('10.0.0.3');
    expect(addressOf(1, '10.0.0.1', '1.1.1.1, 203.0.113.9')).toBe('203.0.113.9');
    expect(addressOf(2, '10.0.0.1', '1.1.1.1, 203.0.113.9, 192.0.2.1')).toBe('203.0.113.9');
    expect(addressOf(3, '10.0.0.1', '203.0.113.9, 192.0.2.1')).toBe('203.0.113.9');
  });

  it.each(['garbage', '', ' ', ',', 'unknown', '::ffff:999.1.1.1', `${'x'.repeat(15_000)}`])(
    'was a text of the client where it sent no address: the hop that passed it on counts (%s)',
    (entry) => {
      expect(addressOf(['10.0.0.0/8'], '10.0.0.1', entry)).toBe('10.0.0.1');
      expect(addressOf(5, '10.0.0.1', `1.1.1.1, ${entry}, 10.0.0.2`)).toBe('10.0.0.2');
    },
  );
});
