import type { LookupAddress } from 'node:dns';
import { lookup, Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

/** All addresses of a name. Rejects with a system error (`ENOTFOUND`, `EAI_AGAIN`) when there are none. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** What the name servers say of a name: its addresses, none where there is no such name, undefined without an answer. */
export type Ask = (hostname: string) => Promise<readonly LookupAddress[] | undefined>;

/** Whether the hosts file of this machine has the name. */
export type IsInHosts = (hostname: string) => Promise<boolean>;

/** How long name servers may take to answer, ms. */
const ANSWERED_WITHIN_MS = 3_000;
const TRY_MS = 1_500;
const TRIES = 2;

/** Names that the name servers do not find and that wait for the system at a time; more are told to come again. */
const MAX_IN_LINE = 32;

/** Addresses of a name that are used, of each family: a connection tries one after the other. */
const MAX_ADDRESSES = 16;

const HOSTS_FILE = '/etc/hosts';
const HOSTS_MS = 10_000;

/** Names that the system knows without asking anybody. */
const LOCAL = /(?:^|\.)localhost\.?$/i;

const bySystem: Resolve = (hostname) => lookup(hostname, { all: true, order: 'verbatim' });

/**
 * Looks names up where the system does: in its hosts file, at its name servers, under its search domains. The system
 * does so in threads, of which a process has but two for it, and for up to half a minute where a name server is silent: a
 * few such names would keep every other name from being found, those of this process's own engines, too. So the name
 * servers are asked over sockets, and the addresses that they give are used: a name server of a destination could
 * answer that question and be silent to the system's. Names that they do not find (the system may, under a search
 * domain) or do not answer for go to the system one at a time, and no name is looked up twice at the same time.
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
    if (LOCAL.test(hostname) || (await isInHosts(hostname))) return system(hostname);
    const found = (await ask(hostname)) ?? [];
    return found.length > 0 ? found : inTurn(hostname);
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
    // Both, as the system asks for both.
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
    // The system may have been given other name servers since.
    if (answers === undefined || answers.includes(undefined)) resolver = newResolver();
    const found = (answers ?? []).flatMap((addresses) => addresses ?? []);
    return found.length === 0 && answers?.includes(undefined) !== false ? undefined : found;
  };
}

function newResolver(): Resolver {
  return new Resolver({ timeout: TRY_MS, tries: TRIES });
}

/** None where there is no such name or nobody listens there, which the system meets with at once too. */
async function addressesIn(
  query: Promise<readonly string[]>,
  family: 4 | 6,
): Promise<readonly LookupAddress[] | undefined> {
  try {
    return (await query).slice(0, MAX_ADDRESSES).map((address) => ({ address, family }));
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ETIMEOUT' ? undefined : [];
  }
}

/** Reads the hosts file again once it is older than `HOSTS_MS`. */
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
