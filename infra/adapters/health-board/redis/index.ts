import { HEALTH_REPORT_TTL_MS, type HealthBoard, type HealthReport, type Logger } from '@tributary/core';
import {
  accessOf,
  checkKeyPrefix,
  type RedisAccess,
  type RedisClient,
  RedisConnection,
  Script,
} from '../../redis/index.ts';

export interface RedisHealthBoardOptions extends RedisAccess {
  /** Prefix of all keys, without braces. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a report is kept without renewal, ms. Default `HEALTH_REPORT_TTL_MS`. */
  readonly keptMs?: number;
}

/**
 * A workspace has a hash of reports, and a sorted set with the time of each report by the server's clock, ms. Drops expired
 * reports, then stores the given ones. `ARGV`: retention in ms, then field and report alternately.
 */
const PUT_REPORTS = new Script(`
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

/** The fields of the reports that are not expired. `ARGV`: retention in ms. */
const CURRENT_FIELDS = new Script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], now - tonumber(ARGV[1]), '+inf')
`);

/** Reports per call, which blocks the server for other clients. */
const REPORTS_PER_CALL = 200;

/** `HealthBoard` in Redis. Reports that a failover loses are renewed within seconds. */
export async function openRedisHealthBoard(options: RedisHealthBoardOptions): Promise<HealthBoard> {
  const { logger, keptMs = HEALTH_REPORT_TTL_MS } = options;
  const prefix = checkKeyPrefix(options.prefix);
  const connection = await RedisConnection.open({ ...accessOf(options), logger });
  const keysOf = (workspaceId: string) => {
    const tag = `{${prefix}h:${workspaceId}}`;
    return { reports: `${tag}reports`, times: `${tag}told` };
  };

  const putReports = (workspaceId: string, reports: readonly HealthReport[]) => {
    const { reports: hash, times } = keysOf(workspaceId);
    const args = reports.flatMap((report) => [fieldOf(report), JSON.stringify(report)]);
    return connection.call((client) => PUT_REPORTS.run(client, [hash, times], [String(keptMs), ...args]));
  };

  return {
    async report(reports) {
      for (const [workspaceId, ofWorkspace] of Map.groupBy(reports, ({ workspace_id }) => workspace_id)) {
        for (let at = 0; at < ofWorkspace.length; at += REPORTS_PER_CALL) {
          await putReports(workspaceId, ofWorkspace.slice(at, at + REPORTS_PER_CALL));
        }
      }
    },

    async read(workspaceId, destinationIds) {
      const { reports, times } = keysOf(workspaceId);
      const wanted = destinationIds && new Set(destinationIds);
      return connection.call(async (client) => {
        const fields = (await CURRENT_FIELDS.run(client, [times], [String(keptMs)])) as string[];
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
  for (let at = 0; at < fields.length; at += REPORTS_PER_CALL) {
    const texts = await client.hmget(key, ...fields.slice(at, at + REPORTS_PER_CALL));
    for (const text of texts) if (text !== null) found.push(JSON.parse(text) as HealthReport);
  }
  return found;
}

/** Ids contain no space. */
function fieldOf({ destination_id, process }: HealthReport): string {
  return `${destination_id} ${process}`;
}

function destinationIn(field: string): string {
  return field.slice(0, field.indexOf(' '));
}
