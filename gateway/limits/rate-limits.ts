import { messageOf, permissionOf, type RateLimiter, type WriteKey } from '@tributary/core';
import fastifyPlugin from 'fastify-plugin';
import type { Caller } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { tooManyRequests } from '../errors/api-error.ts';

/** A limiter that failed is told at most this often, ms. */
const TELL_EVERY_MS = 10_000;

/**
 * 429 for a credential that calls too often. Events are not counted here but where they are taken, by their number. A
 * limiter that does not answer lets everybody pass and is told: it protects the service, and must not be its outage.
 */
export const rateLimitsPlugin = fastifyPlugin<
  Pick<GatewayDependencies, 'limits' | 'metrics' | 'logger' | 'clock'>
>(async (app, { limits, metrics, logger, clock }) => {
  const limiter: RateLimiter | undefined = limits?.calls;
  if (limiter === undefined) return;
  let toldAt = Number.NEGATIVE_INFINITY;

  async function waitOf(caller: Caller, of: RateLimiter): Promise<number> {
    try {
      return await of.take(nameOf(caller));
    } catch (error) {
      metrics.count('tributary_rate_limit_unchecked_total');
      if (clock() - toldAt >= TELL_EVERY_MS) {
        toldAt = clock();
        logger.warn({ error: messageOf(error) }, 'the rate limit cannot be checked: every call passes');
      }
      return 0;
    }
  }

  async function checkCallRate(caller: Caller, of: RateLimiter): Promise<void> {
    const wait = await waitOf(caller, of);
    if (wait > 0) throw tooManyRequests(Math.ceil(wait / 1_000));
  }

  app.addHook('onRequest', (request, _reply, done) => {
    const { operation } = request.routeOptions.config;
    // The way of events waits for no promise.
    if (operation === undefined || operation === 'events.ingest' || permissionOf(operation).public) done();
    else checkCallRate(request.caller, limiter).then(() => done(), done);
  });
});

function nameOf(caller: Caller): string {
  return caller.kind === 'id_token' ? `account:${caller.account.id}` : `key:${caller.key.id}`;
}

/**
 * Counts events against what their key may send: each once, before it is looked at, as what is refused costs as well.
 * 429, and none is counted, for a key that sends more than it may; then none of them may be taken.
 */
export function consumeEventQuota(
  { limits }: Pick<GatewayDependencies, 'limits'>,
  key: WriteKey,
  events: number,
): void {
  const wait = events === 0 ? 0 : (limits?.events?.take(key.id, events) ?? 0);
  if (wait > 0) throw tooManyRequests(Math.ceil(wait / 1_000));
}
