import { HEALTH_REPORT_TTL_MS, type HealthBoard, type HealthReport, type Logger } from '@tributary/core';
import { checkKeyPrefix, type RedisClient, RedisConnection, Script } from '../../redis/index.ts';

export interface RedisHealthBoardOptions {
  /** `redis://` or `rediss://`; several nodes of a cluster are separated by commas. */
  readonly url: string;
  /** Before the names of all keys. No braces. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a report is kept that is not renewed, ms. Default `HEALTH_REPORT_TTL_MS`. */
  readonly keptMs?: number;
}

/**
 * Of a workspace: a hash of the reports, and a sorted set of when each was told by the server's clock, ms. Drops what
 * was not renewed, then takes what is told. `ARGV`: how long is kept, then field and report by turns.
 */
const TELL = new Script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = tonumber(ARGV[1])
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - kept)
for _, field in ipairs(old) do
  redis.call('HDEL', KEYS[1], field)
  redis.call('ZREM', KEYS[2], field)
end
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[2], now, ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], kept)
redis.call('PEXPIRE', KEYS[2], kept)
return 0
`);

/** The fields of the reports that are still good. `ARGV`: how long is kept. */
const FIELDS = new Script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], now - tonumber(ARGV[1]), '+inf')
`);

/** Reports of one call to the server, so that it is not held up. */
const REPORTS_A_CALL = 200;

/** `HealthBoard` in Redis. What a failover loses is told again in a moment. */
export async function openRedisHealthBoard(options: RedisHealthBoardOptions): Promise<HealthBoard> {
  const { url, logger, keptMs = HEALTH_REPORT_TTL_MS } = options;
  const prefix = checkKeyPrefix(options.prefix);
  const connection = await RedisConnection.open({ url, logger });
  const keysOf = (workspaceId: string) => {
    const tag = `{${prefix}h:${workspaceId}}`;
    return { reports: `${tag}reports`, told: `${tag}told` };
  };

  const tellWorkspace = (workspaceId: string, reports: readonly HealthReport[]) => {
    const { reports: hash, told } = keysOf(workspaceId);
    const args = reports.flatMap((report) => [fieldOf(report), JSON.stringify(report)]);
    return connection.call((client) => TELL.run(client, [hash, told], [String(keptMs), ...args]));
  };

  return {
    async report(reports) {
      for (const [workspaceId, ofWorkspace] of Map.groupBy(reports, ({ workspace_id }) => workspace_id)) {
        for (let at = 0; at < ofWorkspace.length; at += REPORTS_A_CALL) {
          await tellWorkspace(workspaceId, ofWorkspace.slice(at, at + REPORTS_A_CALL));
        }
      }
    },

    async read(workspaceId, destinationIds) {
      const { reports, told } = keysOf(workspaceId);
      const wanted = destinationIds && new Set(destinationIds);
      return connection.call(async (client) => {
        const fields = (await FIELDS.run(client, [told], [String(keptMs)])) as string[];
        return reportsIn(
          client,
          reports,
          fields.filter((field) => wanted?.has(destinationIn(field)) ?? true),
        );
      });
    },

    close: () => connection.close(),
  };
}

async function reportsIn(
  client: RedisClient,
  key: string,
  fields: readonly string[],
): Promise<HealthReport[]> {
  const found: HealthReport[] = [];
  for (let at = 0; at < fields.length; at += REPORTS_A_CALL) {
    const texts = await client.hmget(key, ...fields.slice(at, at + REPORTS_A_CALL));
    for (const text of texts) if (text !== null) found.push(JSON.parse(text) as HealthReport);
  }
  return found;
}

/** No id holds a space. */
function fieldOf({ destination_id, process }: HealthReport): string {
  return `${destination_id} ${process}`;
}

function destinationIn(field: string): string {
  return field.slice(0, field.indexOf(' '));
}
