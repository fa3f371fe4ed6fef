import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addressGroup,
  clientAddress,
  parseForwardedAddress,
  parseIpAddress,
  trustedProxies,
  widerGroup,
} from './addresses.ts';

const textOf = (text: string) => parseIpAddress(text)?.text;

describe('an IP address', () => {
  it.each([
    ['203.0.113.9', '203.0.113.9'],
    ['::ffff:203.0.113.9', '203.0.113.9'],
    ['::FFFF:cb00:7109', '203.0.113.9'],
    ['0:0:0:0:0:ffff:203.0.113.9', '203.0.113.9'],
    ['0000:0000:0000:0000:0000:ffff:cb00:7109', '203.0.113.9'],
    ['[::ffff:203.0.113.9]', '203.0.113.9'],
    ['64:ff9b::cb00:7109', '203.0.113.9'],
    // Of a local translator: the IPv4 address stands elsewhere in it.
    ['64:ff9b:1:cb00:71:900::', '64:ff9b:1:cb00:71:900::'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['2001:0db8::0001', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['fe80::1%25', 'fe80::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
  ])('was counted by its spelling: %s is %s', (spelling, canonical) => {
    expect(textOf(spelling)).toBe(canonical);
  });

  it.each([
    ...'unknown _hidden 1.2.3 1.2.3.4.5 256.1.1.1 0177.0.0.1 0x7f.0.0.1 2130706433 1.2.3.4/24 :::'.split(' '),
    ...'1:2:3:4:5:6:7:8:9 ::ffff:1.2.3 [1.2.3.4'.split(' '),
    '',
    'a'.repeat(10_000),
  ])('is not one: %s', (text) => {
    expect(textOf(text)).toBeUndefined();
  });

  it('has one spelling, whatever it was read from', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const canonical = textOf(text) ?? '';
        expect(textOf(canonical)).toBe(canonical);
        if (canonical.includes(':'))
          expect(canonical).toBe(new URL(`http://[${text}]`).hostname.slice(1, -1));
      }),
    );
  });
});

describe('an entry of X-Forwarded-For', () => {
  it.each([
    [' 203.0.113.9 ', '203.0.113.9'],
    ['203.0.113.9:443', '203.0.113.9'],
    ['[2001:db8::9]:443', '2001:db8::9'],
    ['[::ffff:203.0.113.9]:1', '203.0.113.9'],
    ['2001:db8::9', '2001:db8::9'],
  ])('was another address with a port: %s', (entry, address) => {
    expect(parseForwardedAddress(entry)?.text).toBe(address);
  });

  it.each(['', 'unknown', '203.0.113.9:', '203.0.113.9:123456', '203.0.113.9:80:80', 'x:1'])(
    'is no address: %s',
    (entry) => {
      expect(parseForwardedAddress(entry)).toBeUndefined();
    },
  );
});

describe('the group of an address', () => {
  const groupsOf = (text: string) => {
    const address = parseIpAddress(text);
    return address && [addressGroup(address), widerGroup(address)];
  };

  it('is the address of IPv4 and the network of IPv6', () => {
    expect(groupsOf('203.0.113.9')).toEqual(['203.0.113.9', undefined]);
    expect(groupsOf('::ffff:203.0.113.9')).toEqual(['203.0.113.9', undefined]);
    expect(groupsOf('2001:db8:1:2:3:4:5:6')).toEqual(['2001:db8:1:2::/64', '2001:db8:1::/48']);
    expect(groupsOf('::1')).toEqual(['::/64', '::/48']);
  });
});

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
