import { InvalidInput } from '@tributary/core';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Address ranges that the operator allows (`TRIBUTARY_EGRESS_ALLOW`). */
export type AllowedRanges = readonly Range[];

/** Metadata services of clouds that use an address of the public range. */
const METADATA: readonly Range[] = [[ipaddr.IPv4.parse('168.63.129.16'), 32]];

/** The only part of IPv6 that is assigned to the public internet. */
const GLOBAL_UNICAST: Range = [ipaddr.IPv6.parse('2000::'), 3];

/** Reads CIDRs; a bare address is a range of one. Throws `InvalidInput` with the first invalid one. */
export function parseRanges(cidrs: readonly string[]): AllowedRanges {
  return cidrs.map(parseRange);
}

function parseRange(cidr: string): Range {
  const [address = '', prefix] = cidr.trim().split('/', 2);
  const strict = ipaddr.IPv4.isValidFourPartDecimal(address) || ipaddr.IPv6.isValid(address);
  const text = prefix === undefined ? `${address}/${address.includes(':') ? 128 : 32}` : cidr.trim();
  if (!strict || !ipaddr.isValidCIDR(text)) throw new InvalidInput(`"${cidr}" is no address range (CIDR)`);
  return ipaddr.parseCIDR(text);
}

/**
 * Whether a connection to the address is allowed: a public address, or one in a range of the operator. Default deny:
 * private, loopback, link-local, metadata, unspecified, multicast and reserved addresses, IPv6 with an embedded IPv4
 * address (translation, tunnels), and texts that are no address. An IPv4-mapped address is treated as its IPv4 address.
 */
export function mayReach(address: string, allowed: AllowedRanges): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  return allowed.some((range) => contains(range, parsed)) || isPublic(parsed);
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast' || METADATA.some((range) => contains(range, address))) return false;
  return address.kind() === 'ipv4' || contains(GLOBAL_UNICAST, address);
}

function contains(range: Range, address: Address): boolean {
  return range[0].kind() === address.kind() && address.match(range);
}
