import { isIP, type LookupFunction, connect as openSocket, Socket } from 'node:net';
import { type ConnectionOptions, DEFAULT_CIPHERS, connect as openSecure } from 'node:tls';
import type { Metrics } from '@tributary/core';
import { buildConnector } from 'undici';
import { AddressRefused } from '../failures.ts';
import { type AllowedRanges, mayReach } from './address-ranges.ts';
import type { Resolve } from './name-lookups.ts';
import { answerHeads, readThrough } from './response-heads.ts';
import { boundedAnswers, inspectAnswers } from './response-inspection.ts';

/** Where a connection goes; with `tls` it is encrypted, and the certificate is checked against `host`. */
export interface EgressTarget {
  readonly host: string;
  readonly port: number;
  readonly tls?: Pick<ConnectionOptions, 'ca'> | undefined;
}

/**
 * Lets connections out to allowed addresses only.
 *
 * Promises: a name is resolved once for each connection, or for those that begin while it is, and the connection goes to an address of that very answer, so a
 * name that changes between check and use gains nothing; of several addresses the refused ones are left out; with
 * none left the connection fails with `AddressRefused` and not a packet was sent. A redirect or a proxy would lead
 * around it: users must follow none.
 */
export interface EgressGuard {
  /**
   * How an undici `Agent` opens connections, each within `timeoutMs`. One ends on which more than `maxAnswerBytes` come
   * for a request, whatever they are. The heads of answers are made ones that undici takes, see `answerHeads`.
   */
  connector(timeoutMs: number, maxAnswerBytes: number): buildConnector.connector;
  /** A connection on its way. What becomes of it is told by its events, a refusal by `error` too. */
  connect(target: EgressTarget): Socket;
  /** For drivers that connect a socket which they are given, by a host and a port. */
  socket(): Socket;
}

/**
 * For every TLS handshake: no classic Diffie-Hellman, in which the server picks a group of up to 10,000 bits whose cost
 * the thread of this process bears.
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

  const lookupAllowed: LookupFunction = (hostname, { all }, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const reachable = addresses.filter(({ address }) => mayReach(address, allowed));
        const [first] = reachable;
        if (first === undefined) callback(refuse(), []);
        else if (all === true) callback(null, reachable);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };

  // No look-up happens for a literal address, so it is judged here. Other notations of one (decimal, hexadecimal,
  // octal, short) are names to Node: they are looked up, and what comes of that is judged.
  const isRefusedLiteral = (host: string) => isIP(host) !== 0 && !mayReach(host, allowed);

  return {
    connector(timeoutMs, maxAnswerBytes) {
      const connect = buildConnector({ ...HANDSHAKE, lookup: lookupAllowed, timeout: timeoutMs });
      const opened =
        (callback: buildConnector.Callback): buildConnector.Callback =>
        (...[error, socket]) => {
          if (error !== null || socket === null) callback(error ?? new Error('no socket'), null);
          else {
            inspectAnswers(socket, boundedAnswers(socket, maxAnswerBytes));
            callback(null, readThrough(socket, answerHeads(socket)));
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

export interface GuardedSocketOptions {
  readonly lookup: LookupFunction;
  /** True for a literal address that must not be reached. */
  isRefused(host: string): boolean;
  refuse(): AddressRefused;
}

/** A socket that its driver connects, `connect(port, host)`: to allowed addresses, and to nothing else than a host. */
class GuardedSocket extends Socket {
  readonly #options: GuardedSocketOptions;

  constructor(options: GuardedSocketOptions) {
    super();
    this.#options = options;
  }

  override connect(...[port, host]: readonly unknown[]): this {
    const { lookup, isRefused, refuse } = this.#options;
    // Any other form could name a path of this machine, or bring a look-up of its own.
    if (typeof port !== 'number' || typeof host !== 'string' || isRefused(host)) {
      process.nextTick(() => this.destroy(refuse()));
      return this;
    }
    return super.connect({ port, host, lookup });
  }
}
