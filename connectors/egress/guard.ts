import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import type { Metrics } from '@tributary/core';
import { buildConnector } from 'undici';
import { AddressRefused } from '../errors.ts';
import { type AllowedRanges, mayReach } from './address-ranges.ts';

/** All addresses of a name. Rejects with a system error (`ENOTFOUND`, `EAI_AGAIN`) when there are none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

export const resolveBySystem: Resolve = (hostname) => lookup(hostname, { all: true, order: 'verbatim' });

/**
 * Lets connections out to allowed addresses only.
 *
 * Promises: a name is resolved once per connection and the connection goes to an address of that very answer, so a
 * name that changes between check and use gains nothing; of several addresses the refused ones are left out; with
 * none left the connection fails with `AddressRefused` and not a packet was sent. A redirect or a proxy would lead
 * around it: users must follow none.
 */
export interface EgressGuard {
  /** How an undici `Agent` opens connections, each within `timeoutMs`. */
  connector(timeoutMs: number): buildConnector.connector;
}

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

  return {
    connector(timeoutMs) {
      const connect = buildConnector({ lookup: lookupAllowed, timeout: timeoutMs });
      return (target, callback) => {
        // No look-up happens for a literal address, so it is judged here. The URL parser has already turned
        // decimal, hexadecimal, octal and short notations into the usual one.
        if (isIP(target.hostname) === 0 || mayReach(target.hostname, allowed)) connect(target, callback);
        else process.nextTick(() => callback(refuse(), null));
      };
    },
  };
}
