import type { LookupAddress } from 'node:dns';
import { lookup, Resolver } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';

/** All addresses of a name. Rejects with a system error (`ENOTFOUND`, `EAI_AGAIN`) when there are none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** Whether the name servers answer for a name within good time, be it that there is no such name. */
export type Asks = (hostname: string) => Promise<boolean>;

/** How long name servers may take to answer, ms. */
const ANSWERED_WITHIN_MS = 3_000;
const TRY_MS = 1_500;
const TRIES = 2;

/** Names without an answer that wait for the system at a time; more are told to come again. */
const MAX_IN_LINE = 32;

/** Names that the system knows without asking anybody. */
const LOCAL = /(?:^|\.)localhost\.?$/i;

const bySystem: Resolve = (hostname) => lookup(hostname, { all: true, order: 'verbatim' });

/**
 * Looks names up as the system does: its hosts file, its search domains, its order. The system does so in threads, of
 * which a process has but two for it, and for up to half a minute where a name server is silent: a few such names would
 * keep every other name from being found, those of this process's own engines, too. So the name servers are asked first,
 * over sockets; names for which they do not answer go to the system one at a time, and no name is looked up twice at
 * the same time.
 */
export function createNameLookups({
  asks = createAsks(),
  system = bySystem,
}: {
  readonly asks?: Asks;
  readonly system?: Resolve;
} = {}): Resolve {
  const underWay = new Map<string, Promise<readonly LookupAddress[]>>();
  let line: Promise<unknown> = Promise.resolve();
  let inLine = 0;

  async function inTurn(hostname: string): Promise<readonly LookupAddress[]> {
    if (inLine >= MAX_IN_LINE) throw busy(hostname);
    inLine += 1;
    const found = line.then(() => system(hostname)).finally(() => (inLine -= 1));
    line = found.catch(() => undefined);
    return found;
  }

  async function look(hostname: string): Promise<readonly LookupAddress[]> {
    return LOCAL.test(hostname) || (await asks(hostname)) ? system(hostname) : inTurn(hostname);
  }

  return (hostname) => {
    const known = underWay.get(hostname);
    if (known !== undefined) return known;
    const begun = look(hostname).finally(() => underWay.delete(hostname));
    underWay.set(hostname, begun);
    return begun;
  };
}

function createAsks(): Asks {
  let resolver = newResolver();
  return async (hostname) => {
    // Both, as the system asks for both.
    const answered = Promise.all([
      isAnswered(resolver.resolve4(hostname)),
      isAnswered(resolver.resolve6(hostname)),
    ]).then((answers) => answers.every(Boolean));
    const over = new AbortController();
    const tooLate = sleep(ANSWERED_WITHIN_MS, false, { signal: over.signal, ref: false }).catch(() => false);
    const isInTime = await Promise.race([answered, tooLate]);
    over.abort();
    // The system may have been given other name servers since.
    if (!isInTime) resolver = newResolver();
    return isInTime;
  };
}

function newResolver(): Resolver {
  return new Resolver({ timeout: TRY_MS, tries: TRIES });
}

/** Whatever the answer is; that nobody listens there comes at once, to the system as well. */
async function isAnswered(query: Promise<unknown>): Promise<boolean> {
  try {
    await query;
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ETIMEOUT');
  }
}

function busy(hostname: string): Error {
  const error = new Error(`too many names are looked up whose servers do not answer: ${hostname}`);
  return Object.assign(error, { code: 'EAI_AGAIN' });
}
