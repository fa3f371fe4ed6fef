import { isIP, type LookupFunction, connect as openSocket, Socket } from 'node:net';
import { type ConnectionOptions, DEFAULT_CIPHERS, connect as openSecure } from 'node:tls';
import type { Metrics } from '@tributary/core';
import { buildConnector } from 'undici';
import { AddressRefused } from '../failures.ts';
import { type AllowedRanges, mayReach } from './address-ranges.ts';
import { LOCAL_NAME, type Resolve } from './name-lookups.ts';
import { inspectReads, normalizeHeads } from './response-heads.ts';
import { inspectResponses, limitBytes } from './response-inspection.ts';

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

export interface EgressGuardOptions {
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
