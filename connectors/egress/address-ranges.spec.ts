import { InvalidInput } from '@tributary/core';
import { describe, expect, test } from 'vitest';
import { mayReach, parseRanges } from './address-ranges.ts';

describe('without ranges opened by the operator', () => {
  test.each([
    ['unspecified', '0.0.0.0'],
    ['this network', '0.1.2.3'],
    ['loopback', '127.0.0.1'],
    ['loopback, its far end', '127.255.255.254'],
    ['private', '10.1.2.3'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['metadata in carrier-grade NAT', '100.100.100.200'],
    ['metadata, link-local', '169.254.169.254'],
    ['metadata on a public address', '168.63.129.16'],
    ['protocol assignments', '192.0.0.192'],
    ['documentation', '192.0.2.1'],
    ['benchmarking', '198.18.0.1'],
    ['multicast', '224.0.0.1'],
    ['reserved', '240.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['unspecified', '::'],
    ['loopback', '::1'],
    ['IPv4-mapped loopback', '::ffff:127.0.0.1'],
    ['IPv4-mapped private', '::ffff:a00:1'],
    ['IPv4-compatible loopback', '::127.0.0.1'],
    ['IPv4-translated loopback', '::ffff:0:127.0.0.1'],
    ['NAT64 of loopback', '64:ff9b::127.0.0.1'],
    ['NAT64 of a public address', '64:ff9b::8.8.8.8'],
    ['local NAT64', '64:ff9b:1::7f00:1'],
    ['6to4 of loopback', '2002:7f00:1::'],
    ['Teredo', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
    ['unique local', 'fd12:3456:789a::1'],
    ['metadata, unique local', 'fd00:ec2::254'],
    ['link-local', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['site-local', 'fec0::1'],
    ['multicast', 'ff02::1'],
    ['discard', '100::1'],
    ['documentation', '2001:db8::1'],
    ['segment routing', '5f00::1'],
    ['not given out', '4000::1'],
    ['no address', 'localhost'],
    ['no address', ''],
    ['no address', '1.2.3.4.5'],
  ])('refuses %s: %s', (_, address) => {
    expect(mayReach(address, [])).toBe(false);
  });

  test.each(['8.8.8.8', '1.1.1.1', '172.32.0.1', '2606:4700:4700::1111', '::ffff:8.8.8.8'])(
    'lets %s through',
    (address) => {
      expect(mayReach(address, [])).toBe(true);
    },
  );
});

test('an opened range opens itself and nothing beside it', () => {
  const allowed = parseRanges(['127.0.0.0/8', ' fd00::/8 ', '10.0.0.7']);
  for (const inside of ['127.0.0.1', '127.9.9.9', '::ffff:127.0.0.1', 'fd00::1', '10.0.0.7']) {
    expect(mayReach(inside, allowed), inside).toBe(true);
  }
  for (const beside of ['::1', '10.0.0.8', '0.0.0.0', 'fc00::1', '169.254.169.254']) {
    expect(mayReach(beside, allowed), beside).toBe(false);
  }
});

test.each(['127.0.0.0/33', 'localhost', '', '127.1/8', '010.0.0.0/8', '::/129', '10.0.0.0/8/8', '10.0.0.0/'])(
  'the range "%s" is refused',
  (cidr) => {
    expect(() => parseRanges([cidr])).toThrow(InvalidInput);
  },
);
