import { type Catalog, Unavailable } from '@tributary/core';
import type { onRequestHookHandler } from 'fastify';

/**
 * Refuses requests with `Unavailable` while the catalog is not to be trusted: until it was read once, and whenever
 * nothing was heard of the log for longer than `staleAfterMs`. A gateway that does not know its keys yet would answer
 * 401 to good ones, and producers throw away what is refused for good; one that is cut off would go on taking keys that
 * were revoked elsewhere. A shorter silence changes nothing: what is in memory goes on to be right about what it knows.
 */
export function whileTrusted(
  catalog: Pick<Catalog, 'ready' | 'age'>,
  staleAfterMs: number,
): onRequestHookHandler {
  let caughtUp = false;
  return (_request, _reply, done) => {
    caughtUp ||= catalog.ready;
    if (!caughtUp) return done(new Unavailable('the catalog is being read'));
    done(catalog.age <= staleAfterMs ? undefined : new Unavailable('the catalog is too old to be trusted'));
  };
}
