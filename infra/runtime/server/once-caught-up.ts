import { type Catalog, Unavailable } from '@tributary/core';
import type { onRequestHookHandler } from 'fastify';

/**
 * Refuses requests with `Unavailable` until the catalog was read once. A gateway that does not know its keys yet would
 * answer 401 to good ones, and producers throw away what is refused for good. Once it has been read, an outage of the
 * log changes nothing here: the catalog in memory goes on to be right about what it knows.
 */
export function onceCaughtUp(catalog: Pick<Catalog, 'ready'>): onRequestHookHandler {
  let caughtUp = false;
  return (_request, _reply, done) => {
    caughtUp ||= catalog.ready;
    done(caughtUp ? undefined : new Unavailable('the catalog is being read'));
  };
}
