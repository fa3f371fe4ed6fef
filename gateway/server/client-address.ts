import type { IncomingMessage } from 'node:http';
import { InvalidInput } from '@tributary/core';
import {
  addressGroup,
  type IpAddress,
  parseForwardedAddress,
  parseIpAddress,
  widerGroup,
} from './ip-address.ts';

/** Whether an address is a trusted proxy. `hop`: 0 for the peer of the connection. */
export type IsTrustedProxy = (address: IpAddress, hop: number) => boolean;

declare module 'fastify' {
  interface FastifyRequest {
    /** The address of the client, for limits, logs and audit entries. Computed on each access. */
    readonly clientAddress: IpAddress;
  }
}

/** The address of a connection that has ended. */
export const UNKNOWN: IpAddress = { text: 'unknown', numbers: [0, 0, 0, 0] };

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

interface Range {
  readonly numbers: readonly number[];
  readonly prefix: number;
}

function rangeOf(text: string): Range {
  const [base = '', prefix] = text.split('/', 2);
  const address = parseIpAddress(base);
  if (address === undefined) throw new InvalidInput(`"${text}" is no address range (CIDR)`);
  const { numbers } = address;
  const bits = numbers.length === 4 ? 32 : 128;
  // A range of IPv4-mapped IPv6 addresses has a prefix of 96 bits.
  const outside = numbers.length === 4 && base.includes(':') ? 96 : 0;
  return { numbers, prefix: prefix === undefined ? bits : Math.max(0, Number(prefix) - outside) };
}

function contains({ numbers, prefix }: Range, address: IpAddress): boolean {
  if (numbers.length !== address.numbers.length) return false;
  const width = numbers.length === 4 ? 8 : 16;
  return numbers.every((number, at) => {
    const bits = Math.min(width, Math.max(0, prefix - at * width));
    return number >> (width - bits) === (address.numbers[at] ?? 0) >> (width - bits);
  });
}
