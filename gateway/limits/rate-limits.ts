import { messageOf, permissionOf, type RateLimiter, type WriteKey } from '@tributary/core';
import fastifyPlugin from 'fastify-plugin';
import type { Caller } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { tooManyRequests } from '../errors/api-error.ts';
import { refuseEventsOverBudget } from './storage-budgets.ts';
import { countProducerCall } from './turns.ts';

/** A failing limiter is logged at most this often, ms. */
const LOG_EVERY_MS = 10_000;

/**
 * 429 for a credential that calls too often. Ingestion is limited by `consumeEventQuota` instead, by number of events.
 * While the limiter does not respond, all calls pass, and that is logged: its outage must not become one of the service.
 */
export const rateLimitsPlugin = fastifyPlugin<
  Pick<GatewayDependencies, 'limits' | 'metrics' | 'logger' | 'clock'>
>(async (app, { limits, metrics, logger, clock }) => {
  const limiter: RateLimiter | undefined = limits?.calls;
  let loggedAt = Number.NEGATIVE_INFINITY;

  async function waitOf(caller: Caller, of: RateLimiter): Promise<number> {
    try {
      return await of.take(nameOf(caller));
    } catch (error) {
      metrics.count('tributary_rate_limit_unchecked_total');
      if (clock() - loggedAt >= LOG_EVERY_MS) {
        loggedAt = clock();
        logger.warn(
          { error: messageOf(error) },
          'the rate limiter does not answer: all calls pass until it does',
        );
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
    // The path of events awaits no promise.
    if (operation === 'events.ingest') {
      countProducerCall();
      return done();
    }
    if (limiter === undefined || operation === undefined || permissionOf(operation).public) return done();
    const { caller } = request;
    if (caller.kind === 'client_key' && limits?.limitsClientKeys === false) return done();
    checkCallRate(caller, limiter).then(() => done(), done);
  });
});

function nameOf(caller: Caller): string {
  return caller.kind === 'id_token' ? `account:${caller.account.id}` : `key:${caller.key.id}`;
}

/**
 * Consumes the event quota of a write key, once per event and before validation, as refused events cost work as well. 429
 * when the quota is exceeded, or a budget of bytes of the workspace; then nothing is consumed and no event may be accepted.
 */
export function consumeEventQuota(
  { limits, budgets, metrics }: Pick<GatewayDependencies, 'limits' | 'budgets' | 'metrics'>,
  key: WriteKey,
  events: number,
): void {
  refuseEventsOverBudget({ budgets, metrics }, key.workspace_id);
  const wait = events === 0 ? 0 : (limits?.events?.take(key.id, events) ?? 0);
  if (wait > 0) throw tooManyRequests(Math.ceil(wait / 1_000));
}
