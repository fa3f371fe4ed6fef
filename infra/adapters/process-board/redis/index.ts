import { type Logger, PROCESS_REPORT_TTL_MS, type ProcessBoard, type ProcessReport } from '@tributary/core';
import { checkKeyPrefix, type RedisAccess, RedisConnection, Script } from '../../redis/index.ts';

export interface RedisProcessBoardOptions extends RedisAccess {
  /** Prefix of all keys, without braces. */
  readonly prefix: string;
  readonly logger: Logger;
  /** How long a report is kept without renewal, ms. Default `PROCESS_REPORT_TTL_MS`. */
  readonly keptMs?: number;
}

/** A hash of reports, and a sorted set with the time of each by the server's clock, ms. `ARGV`: retention, process, report. */
const REPORT = new Script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = tonumber(ARGV[1])
for _, process in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - kept)) do
  redis.call('HDEL', KEYS[1], process)
  redis.call('ZREM', KEYS[2], process)
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('ZADD', KEYS[2], now, ARGV[2])
redis.call('PEXPIRE', KEYS[1], kept)
redis.call('PEXPIRE', KEYS[2], kept)
return 0
`);

const WITHDRAW = new Script(`
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 0
`);

/** The reports that are not expired. `ARGV`: retention in ms. */
const READ = new Script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reports = {}
for _, process in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], now - tonumber(ARGV[1]), '+inf')) do
  reports[#reports + 1] = redis.call('HGET', KEYS[1], process)
end
return reports
`);

/** `ProcessBoard` in Redis. Reports that a failover loses are renewed within seconds. */
export async function openRedisProcessBoard(options: RedisProcessBoardOptions): Promise<ProcessBoard> {
  const { keptMs = PROCESS_REPORT_TTL_MS } = options;
  const tag = `{${checkKeyPrefix(options.prefix)}processes}`;
  const keys = [`${tag}reports`, `${tag}times`];
  const kept = String(keptMs);
  const connection = await RedisConnection.open(options);
  return {
    async report(report) {
      await connection.call((client) =>
        REPORT.run(client, keys, [kept, report.process, JSON.stringify(report)]),
      );
    },

    async withdraw(process) {
      await connection.call((client) => WITHDRAW.run(client, keys, [process]));
    },

    async read() {
      const reports = (await connection.call((client) => READ.run(client, keys, [kept]))) as (
        | string
        | null
      )[];
      return reports.flatMap((report) => (report === null ? [] : [JSON.parse(report) as ProcessReport]));
    },

    close: () => connection.close(),
  };
}
