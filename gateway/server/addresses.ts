import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { InvalidInput } from '@tributary/core';
import ipaddr from 'ipaddr.js';

export interface IpAddress {
  /** RFC 5952 for IPv6, without a zone; IPv4-mapped and translated addresses are IPv4 addresses. */
  readonly text: string;
  readonly parsed: ipaddr.IPv4 | ipaddr.IPv6;
  /** The address is that of a trusted proxy that does not say for which client it calls. */
  readonly isProxy?: true;
}

/** IPv4 addresses on dual-stack sockets, and behind a translator (RFC 6052): what stands before their 32 bits. */
const BEFORE_IPV4 = ['0:0:0:0:0:ffff', '64:ff9b:0:0:0:0'];

/** Parses an address in any form, also in brackets and with a zone; undefined for anything else. */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (isIP(text) === 4) return addressOf(ipaddr.IPv4.parse(text));
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (isIP(bare) !== 6) return undefined;
  const parsed = ipaddr.IPv6.parse(bare.replace(/%.*/, ''));
  const before = parsed.parts.slice(0, 6).map((part) => part.toString(16));
  return addressOf(
    BEFORE_IPV4.includes(before.join(':')) ? new ipaddr.IPv4(parsed.toByteArray().slice(12)) : parsed,
  );
}

/** Parses an entry of `X-Forwarded-For`: an address with an optional port, for IPv6 in brackets. */
export function parseForwardedAddress(entry: string): IpAddress | undefined {
  const text = entry.trim();
  return parseIpAddress(text) ?? parseIpAddress(text.replace(/:\d{1,5}$/, ''));
}

function addressOf(parsed: IpAddress['parsed']): IpAddress {
  return { text: parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString(), parsed };
}

/** The name under which an address is counted. A /64 network counts as one, as one customer has all of it. */
export function addressGroup({ text, parsed }: IpAddress): string {
  return parsed instanceof ipaddr.IPv6 ? networkOf(parsed, 64) : text;
}

/** The /48 network of an IPv6 address, which one customer may have; undefined for IPv4. */
export function widerGroup({ parsed }: IpAddress): string | undefined {
  return parsed instanceof ipaddr.IPv6 ? networkOf(parsed, 48) : undefined;
}

function networkOf({ parts }: ipaddr.IPv6, bits: number): string {
  const network = new ipaddr.IPv6(parts.map((part, at) => (at * 16 < bits ? part : 0)));
  return `${network.toRFC5952String()}/${bits}`;
}

/** Whether an address is a trusted proxy. `hop`: 0 for the peer of the connection. */
export type IsTrustedProxy = (address: IpAddress, hop: number) => boolean;

declare module 'fastify' {
  interface FastifyRequest {
    /** The address of the client, for limits, logs and audit entries. Computed on each access. */
    readonly clientAddress: IpAddress;
  }
}

/** The address of a connection that has ended. */
export const UNKNOWN: IpAddress = { text: 'unknown', parsed: new ipaddr.IPv4([0, 0, 0, 0]) };

/** Trusts proxies by address or CIDR range, or a number of hops. */
export function trustedProxies(proxies: readonly string[] | number): IsTrustedProxy {
  if (typeof proxies === 'number') return (_address, hop) => hop < proxies;
  const ranges = proxies.map(rangeOf);
  return (address) => ranges.some((range) => contains(range, address));
}

/**
 * The address of the client. `X-Forwarded-For` is read backwards from the entry of the nearest proxy, as long as each hop
 * is trusted: entries before the first untrusted hop may be forged. An entry that is not an address (empty, `unknown`)
 * ends the walk with the address of the proxy that wrote it, marked as a proxy's: the entry before it may be forged.
 */
export function clientAddress(
  {
    socket,
    headers,
  }: Pick<IncomingMessage, 'headers'> & {
    readonly socket: { readonly remoteAddress?: string | undefined };
  },
  isTrusted: IsTrustedProxy,
): IpAddress {
  let address = parseIpAddress(socket.remoteAddress ?? '') ?? UNKNOWN;
  const forwarded = headers['x-forwarded-for'];
  if (forwarded === undefined) return address;
  const entries = String(forwarded).split(',').toReversed();
  for (const [hop, entry] of entries.entries()) {
    if (!isTrusted(address, hop)) return address;
    const before = parseForwardedAddress(entry);
    if (before === undefined) return { ...address, isProxy: true };
    address = before;
  }
  return address;
}

/** The owners that an unauthenticated client counts for in a `FairBudget`. */
export function ownersByAddress(address: IpAddress): readonly string[] {
  const wider = widerGroup(address);
  const group = addressGroup(address);
  return wider === undefined ? [group] : [wider, group];
}

function rangeOf(text: string): readonly [IpAddress['parsed'], number] {
  const [base = '', prefix] = text.split('/', 2);
  const address = parseIpAddress(base)?.parsed;
  const bits = address?.kind() === 'ipv4' ? 32 : 128;
  // A range of IPv4-mapped IPv6 addresses has a prefix of 96 bits.
  const outside = bits === 32 && base.includes(':') ? 96 : 0;
  const length = prefix === undefined ? bits : Math.max(0, Number(prefix) - outside);
  if (address === undefined || !(length <= bits))
    throw new InvalidInput(`"${text}" is no address range (CIDR)`);
  return [address, length];
}

function contains([network, bits]: ReturnType<typeof rangeOf>, { parsed }: IpAddress): boolean {
  return parsed.kind() === network.kind() && parsed.match(network, bits);
}
