import type { LookupAddress } from 'node:dns';
import { lookup, Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP, type LookupFunction, connect as openSocket, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectionOptions, DEFAULT_CIPHERS, connect as openSecure } from 'node:tls';
import { hasCode, type Metrics } from '@tributary/core';
import { buildConnector } from 'undici';
import { AddressRefused } from '../failures.ts';
import { type AllowedRanges, mayReach } from './address-ranges.ts';
import { inspectReads, inspectResponses, limitBytes, normalizeHeads } from './response-heads.ts';

/** The target of a connection; with `tls` it is encrypted, and the certificate is checked against `host`. */
export interface EgressTarget {
  readonly host: string;
  readonly port: number;
  readonly tls?: Pick<ConnectionOptions, 'ca'> | undefined;
}

/**
 * Opens connections to allowed addresses only (protection against SSRF).
 *
 * - A name is resolved once for each connection, or once for connections that begin during the look-up, and the connection
 *   uses an address of that result: DNS rebinding gains nothing.
 * - Of several addresses the refused ones are skipped. With none left the connection fails as it does for a name that is
 *   not resolved (`ENOTFOUND`), so the caller cannot find out which names resolve to private addresses; no packet is sent.
 * - A literal address that is refused, and `localhost`, fail with `AddressRefused`.
 * - Callers must not follow redirects or use proxies: these would bypass the guard.
 */
export interface EgressGuard {
  /**
   * The `connect` option of an undici `Agent`: each connection opens within `timeoutMs`, and is closed once it receives more
   * than `maxResponseBytes` for one request. Heads of responses are normalized, see `normalizeHeads`.
   */
  connector(timeoutMs: number, maxResponseBytes: number): buildConnector.connector;
  /** A connecting socket. A refused address is reported as its `error` event. */
  connect(target: EgressTarget): Socket;
  /** An unconnected socket, for drivers that call `connect(port, host)` on it. */
  socket(): Socket;
}

/**
 * Options of all TLS handshakes: no finite-field Diffie-Hellman, where the server chooses a group of up to 10,000 bits and
 * this thread computes with it.
 */
export const HANDSHAKE = { ciphers: `${DEFAULT_CIPHERS}:!DHE` };

interface EgressGuardOptions {
  readonly allowed: AllowedRanges;
  readonly resolve: Resolve;
  readonly metrics: Metrics;
}

export function createEgressGuard(options: EgressGuardOptions): EgressGuard {
  const { allowed, resolve, metrics } = options;

  const refuse = (): AddressRefused => {
    metrics.count('tributary_egress_refused_total');
    return new AddressRefused('address not allowed');
  };

  const refuseName = (hostname: string): Error => {
    const refusal = refuse();
    if (LOCAL_NAME.test(hostname)) return refusal;
    return Object.assign(new Error('no allowed address'), { code: 'ENOTFOUND' });
  };

  const lookupAllowed: LookupFunction = (hostname, { all }, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const reachable = addresses.filter(({ address }) => mayReach(address, allowed));
        const [first] = reachable;
        if (first === undefined) callback(refuseName(hostname), []);
        else if (all === true) callback(null, reachable);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };

  // A literal address is not looked up, so it is checked here. Other notations of addresses (decimal, hexadecimal, octal,
  // short) are names to Node: they are looked up, and the result is checked.
  const isRefusedLiteral = (host: string) => isIP(host) !== 0 && !mayReach(host, allowed);

  return {
    connector(timeoutMs, maxResponseBytes) {
      const connect = buildConnector({ ...HANDSHAKE, lookup: lookupAllowed, timeout: timeoutMs });
      const opened =
        (callback: buildConnector.Callback): buildConnector.Callback =>
        (...[error, socket]) => {
          if (error !== null || socket === null) callback(error ?? new Error('no socket'), null);
          else {
            inspectResponses(socket, limitBytes(socket, maxResponseBytes));
            callback(null, inspectReads(socket, normalizeHeads(socket)));
          }
        };
      return (target, callback) => {
        if (isRefusedLiteral(target.hostname)) process.nextTick(() => callback(refuse(), null));
        else connect(target, opened(callback));
      };
    },

    connect({ host, port, tls }) {
      if (isRefusedLiteral(host)) return refusedSocket(refuse());
      if (tls === undefined) return openSocket({ host, port, lookup: lookupAllowed });
      return openSecure({
        ...HANDSHAKE,
        ...tls,
        host,
        port,
        lookup: lookupAllowed,
        servername: isIP(host) ? '' : host,
      });
    },

    socket: () => new GuardedSocket({ lookup: lookupAllowed, isRefused: isRefusedLiteral, refuse }),
  };
}

function refusedSocket(refusal: AddressRefused): Socket {
  const socket = new Socket();
  process.nextTick(() => socket.destroy(refusal));
  return socket;
}

interface GuardedSocketOptions {
  readonly lookup: LookupFunction;
  /** Whether the host is a literal address that is not allowed. */
  isRefused(host: string): boolean;
  refuse(): AddressRefused;
}

/** A socket that its driver connects by `connect(port, host)`, to allowed addresses only. */
class GuardedSocket extends Socket {
  readonly #options: GuardedSocketOptions;

  constructor(options: GuardedSocketOptions) {
    super();
    this.#options = options;
  }

  override connect(...[port, host]: readonly unknown[]): this {
    const { lookup, isRefused, refuse } = this.#options;
    // Any other form of arguments could name a Unix socket or replace the look-up.
    if (typeof port !== 'number' || typeof host !== 'string' || isRefused(host)) {
      process.nextTick(() => this.destroy(refuse()));
      return this;
    }
    return super.connect({ port, host, lookup });
  }
}

/** Resolves a name to all its addresses. Rejects with a system error (`ENOTFOUND`, `EAI_AGAIN`) when there are none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** Queries the name servers: the addresses of a name, none where it does not exist, undefined without an answer. */
type Ask = (hostname: string) => Promise<readonly LookupAddress[] | undefined>;

/** Whether the hosts file of this machine contains the name. */
type IsInHosts = (hostname: string) => Promise<boolean>;

/** Timeout of the queries for one name, ms; of one try, and tries. */
const ANSWERED_WITHIN_MS = 3_000;
const TRY_MS = 1_500;
const TRIES = 2;

/** Names queued for the system's resolver at a time; more are rejected with `EAI_AGAIN`. */
const MAX_QUEUED = 32;

/** Addresses used of each family: a connection tries one after the other. */
const MAX_ADDRESSES = 16;

const HOSTS_FILE = '/etc/hosts';
const HOSTS_MS = 10_000;

/** Names that the system resolves without a query. */
const LOCAL_NAME = /(?:^|\.)localhost\.?$/i;

const bySystem: Resolve = (hostname) => lookup(hostname, { all: true, order: 'verbatim' });

/**
 * Resolves names from the sources of the system: its hosts file, its name servers, its search domains. `getaddrinfo` blocks
 * a thread of the pool, of which Node uses two for it, for up to half a minute where a name server does not answer: a few
 * such names would block all others, also those of this process's own engines. So the name servers are queried over
 * sockets, and their addresses are used: a destination's name server could answer this query and ignore the system's.
 * Names that they do not find (the system may, under a search domain) or do not answer for go to the system's resolver one
 * at a time. A name is never looked up twice at the same time.
 */
export function createNameLookups({
  ask = createAsk(),
  isInHosts = createIsInHosts(),
  system = bySystem,
}: {
  readonly ask?: Ask;
  readonly isInHosts?: IsInHosts;
  readonly system?: Resolve;
} = {}): Resolve {
  const underWay = new Map<string, Promise<readonly LookupAddress[]>>();
  let last: Promise<unknown> = Promise.resolve();
  let queued = 0;

  async function bySystemQueue(hostname: string): Promise<readonly LookupAddress[]> {
    if (queued >= MAX_QUEUED) throw busy(hostname);
    queued += 1;
    const found = last.then(() => system(hostname)).finally(() => (queued -= 1));
    last = found.catch(() => undefined);
    return found;
  }

  async function look(hostname: string): Promise<readonly LookupAddress[]> {
    if (LOCAL_NAME.test(hostname) || (await isInHosts(hostname))) return system(hostname);
    const found = (await ask(hostname)) ?? [];
    return found.length > 0 ? found : bySystemQueue(hostname);
  }

  return (hostname) => {
    const known = underWay.get(hostname);
    if (known !== undefined) return known;
    const begun = look(hostname).finally(() => underWay.delete(hostname));
    underWay.set(hostname, begun);
    return begun;
  };
}

function createAsk(): Ask {
  let resolver = newResolver();
  return async (hostname) => {
    // Both families, as the system does.
    const answered = Promise.all([
      addressesIn(resolver.resolve4(hostname), 4),
      addressesIn(resolver.resolve6(hostname), 6),
    ]);
    const over = new AbortController();
    const tooLate = sleep(ANSWERED_WITHIN_MS, undefined, { signal: over.signal, ref: false }).catch(
      () => undefined,
    );
    const answers = await Promise.race([answered, tooLate]);
    over.abort();
    // The name servers of the system may have changed meanwhile.
    if (answers === undefined || answers.includes(undefined)) resolver = newResolver();
    const found = (answers ?? []).flatMap((addresses) => addresses ?? []);
    return found.length === 0 && answers?.includes(undefined) !== false ? undefined : found;
  };
}

function newResolver(): Resolver {
  return new Resolver({ timeout: TRY_MS, tries: TRIES });
}

/** Empty where the name does not exist or no name server listens; undefined after a timeout. */
async function addressesIn(
  query: Promise<readonly string[]>,
  family: 4 | 6,
): Promise<readonly LookupAddress[] | undefined> {
  try {
    return (await query).slice(0, MAX_ADDRESSES).map((address) => ({ address, family }));
  } catch (error) {
    return hasCode(error, 'ETIMEOUT') ? undefined : [];
  }
}

/** Rereads the hosts file after `HOSTS_MS`. */
function createIsInHosts(): IsInHosts {
  let names: Promise<ReadonlySet<string>> | undefined;
  let readAt = 0;
  return async (hostname) => {
    if (names === undefined || performance.now() - readAt > HOSTS_MS) {
      readAt = performance.now();
      names = readFile(HOSTS_FILE, 'utf8').then(namesIn, () => new Set());
    }
    return (await names).has(hostname.toLowerCase().replace(/\.$/, ''));
  };
}

function namesIn(hosts: string): ReadonlySet<string> {
  const lines = hosts.split('\n').map((line) => line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/));
  return new Set(lines.flatMap(([, ...names]) => names));
}

function busy(hostname: string): Error {
  const error = new Error(`too many names are looked up whose servers do not answer: ${hostname}`);
  return Object.assign(error, { code: 'EAI_AGAIN' });
}
