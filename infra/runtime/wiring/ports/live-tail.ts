import type { MessagePort } from 'node:worker_threads';
import { type LiveTail, type Logger, Unavailable } from '@tributary/core';
import { openInProcessLiveTail, openLinkedLiveTail } from '../../../adapters/live-tail/in-process/index.ts';
import type { Config } from '../../config/settings.ts';

export interface LiveTailTools {
  readonly logger: Logger;
  /** Leads to the other side's thread, where gateway and stages are in one process. */
  readonly link?: MessagePort | undefined;
}

/**
 * The live tail of a gateway: on Redis where it is named, which need not answer yet, else that of the stages' thread of
 * this process. Where the stages are in other processes and there is no Redis to meet at, there is none.
 */
export async function openGatewayLiveTail(
  config: Config,
  { logger, link }: LiveTailTools,
): Promise<LiveTail> {
  if (config.redisUrl !== undefined) return openOnRedis(config, config.redisUrl, logger);
  if (link !== undefined) {
    if (config.kafkaBrokers.length > 0)
      logger.warn({}, 'REDIS_URL is not set: the live stream lacks the events that other processes work on');
    return openLinkedLiveTail({ port: link, logger });
  }
  if (config.kafkaBrokers.length === 0) return openInProcessLiveTail({ logger });
  logger.warn({}, 'REDIS_URL is not set: there is no live stream of events');
  return NO_LIVE_TAIL;
}

/** The live tail of the stages: the other side of `openGatewayLiveTail`. */
export async function openStagesLiveTail(config: Config, { logger, link }: LiveTailTools): Promise<LiveTail> {
  if (config.redisUrl !== undefined) return openOnRedis(config, config.redisUrl, logger);
  return link === undefined ? NO_LIVE_TAIL : openInProcessLiveTail({ logger, links: [link] });
}

async function openOnRedis(config: Config, url: string, logger: Logger): Promise<LiveTail> {
  const { openRedisLiveTail } = await import('../../../adapters/live-tail/redis/index.ts');
  return openRedisLiveTail({ url, prefix: config.prefix, logger });
}

/** For processes without a gateway to follow it: the stage goes on, and requests are refused. */
const NO_LIVE_TAIL: LiveTail = {
  append: async () => 0,
  async follow() {
    throw new Unavailable('there is no live tail without REDIS_URL');
  },
  async close() {},
};
