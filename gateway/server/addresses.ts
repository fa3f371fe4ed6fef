import type { IncomingMessage } from 'node:http';
import { isIPv4, isIPv6 } from 'node:net';
import { InvalidInput } from '@tributary/core';

/** An IP address in canonical form, and its numbers. */
export interface IpAddress {
  /** RFC 5952 for IPv6, without a zone; IPv4-mapped and translated addresses are IPv4 addresses. */
  readonly text: string;
  /** 4 bytes, or 8 groups of 16 bits. */
  readonly numbers: readonly number[];
  /** The address is that of a trusted proxy that does not say for which client it calls. */
  readonly isProxy?: true;
}

/** 64:ff9b::/96: IPv4 addresses behind a translator (RFC 6052). */
const TRANSLATED = [0x64, 0xff9b, 0, 0, 0, 0];
/** ::ffff:0:0/96: IPv4 addresses on dual-stack sockets. */
const MAPPED = [0, 0, 0, 0, 0, 0xffff];

/** Parses an address in any form, also in brackets and with a zone; undefined for anything else. */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return ipv4(text.split('.').map(Number));
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (!isIPv6(bare)) return undefined;
  const groups = groupsOf(bare);
  if (!startsWith(groups, MAPPED) && !startsWith(groups, TRANSLATED)) return ipv6(groups);
  return ipv4(groups.slice(6).flatMap((group) => [group >> 8, group & 0xff]));
}

/** Parses an entry of `X-Forwarded-For`: an address with an optional port, for IPv6 in brackets. */
export function parseForwardedAddress(entry: string): IpAddress | undefined {
  const text = entry.trim();
  return parseIpAddress(text) ?? parseIpAddress(text.replace(/:\d{1,5}$/, ''));
}

/** The name under which an address is counted. A /64 network counts as one, as one customer has all of it. */
export function addressGroup({ text, numbers }: IpAddress): string {
  return isV4(numbers) ? text : `${textOf([...numbers.slice(0, 4), 0, 0, 0, 0])}/64`;
}

/** The /48 network of an IPv6 address, which one customer may have; undefined for IPv4. */
export function widerGroup({ numbers }: IpAddress): string | undefined {
  return isV4(numbers) ? undefined : `${textOf([...numbers.slice(0, 3), 0, 0, 0, 0, 0])}/48`;
}

function isV4(numbers: readonly number[]): boolean {
  return numbers.length === 4;
}

function ipv4(bytes: readonly number[]): IpAddress {
  return { text: bytes.join('.'), numbers: bytes };
}

function ipv6(groups: readonly number[]): IpAddress {
  return { text: textOf(groups), numbers: groups };
}

function startsWith(groups: readonly number[], prefix: readonly number[]): boolean {
  return prefix.every((group, at) => group === groups[at]);
}

/** The eight groups of a valid address. */
function groupsOf(text: string): readonly number[] {
  const [address = ''] = text.split('%', 1);
  const [head = '', tail] = address.split('::');
  const [before, after] = [partsOf(head), partsOf(tail ?? '')];
  if (tail === undefined) return before;
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after];
}

function partsOf(text: string): readonly number[] {
  if (text === '') return [];
  return text.split(':').flatMap((part) => {
    if (!part.includes('.')) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split('.').map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}

/** RFC 5952: lower case, no leading zeros, the first of the longest runs of zeros as `::`. */
function textOf(groups: readonly number[]): string {
  let longest = { at: 0, length: 1 };
  for (let at = 0; at < groups.length; at++) {
    let length = 0;
    while (groups[at + length] === 0) length++;
    if (length > longest.length) longest = { at, length };
  }
  const hex = (part: readonly number[]) => part.map((group) => group.toString(16)).join(':');
  if (longest.length === 1) return hex(groups);
  return `${hex(groups.slice(0, longest.at))}::${hex(groups.slice(longest.at + longest.length))}`;
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
