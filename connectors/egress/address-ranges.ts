import { InvalidInput } from '@tributary/core';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Ranges an operator opened. */
export type AllowedRanges = readonly Range[];

/** Cloud services that answer inside a machine on an address of the public range. */
const METADATA: readonly Range[] = [[ipaddr.IPv4.parse('168.63.129.16'), 32]];

/** The only part of IPv6 that is given out for the public internet. */
const GLOBAL_UNICAST: Range = [ipaddr.IPv6.parse('2000::'), 3];

/** Reads CIDRs; a bare address is a range of one. `InvalidInput` names the first that is neither. */
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
 * True when a connection to the address may be made: it is a public one, or in a range the operator opened. Anything
 * that is not known to be public is not: private, loopback, link-local, metadata, unspecified, multicast, reserved,
 * IPv6 that carries an IPv4 address by translation or a tunnel, and what is no address at all. An IPv4-mapped address
 * is judged as the IPv4 address it stands for.
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
