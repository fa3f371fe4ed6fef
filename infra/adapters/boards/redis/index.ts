import {
  HEALTH_REPORT_TTL_MS,
  HEALTH_RESOLUTIONS,
  type HealthBoard,
  type HealthReport,
  type HealthResolution,
  type HealthSample,
  type LatencyCounts,
  PROCESS_REPORT_TTL_MS,
  type ProcessBoard,
  type ProcessReport,
  startOf,
} from '@tributary/core';
import { checkKeyPrefix, RedisConnection, type RedisStoreOptions, Script } from '../../redis/index.ts';

interface RedisBoardOptions extends RedisStoreOptions {
  /** How long a report is kept without renewal, ms. Default: as the port says. */
  readonly keptMs?: number;
}

/** Drops expired reports, then stores the given ones. `ARGV`: retention in ms, then field and report alternately. */
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

/**
 * Reports by field in a hash, and a sorted set with the time of each by the server's clock, ms. Reports that a failover loses
 * are renewed within seconds.
 */
class Reports<Report> {
  readonly #connection: RedisConnection;
  readonly #hash: string;
  readonly #times: string;
  readonly #keptMs: string;

  constructor(
    connection: RedisConnection,
    [hash, times]: readonly [hash: string, times: string],
    keptMs: number,
  ) {
    this.#connection = connection;
    this.#hash = hash;
    this.#times = times;
    this.#keptMs = String(keptMs);
  }

  async put(reports: readonly Report[], fieldOf: (report: Report) => string): Promise<void> {
    for (let at = 0; at < reports.length; at += REPORTS_PER_CALL) {
      const some = reports.slice(at, at + REPORTS_PER_CALL);
      const args = some.flatMap((report) => [fieldOf(report), JSON.stringify(report)]);
      await this.#connection.call((client) =>
        PUT_REPORTS.run(client, [this.#hash, this.#times], [this.#keptMs, ...args]),
      );
    }
  }

  read(isWanted: (field: string) => boolean = () => true): Promise<readonly Report[]> {
    return this.#connection.call(async (client) => {
      const all = (await CURRENT_FIELDS.run(client, [this.#times], [this.#keptMs])) as string[];
      const fields = all.filter(isWanted);
      const found: Report[] = [];
      for (let at = 0; at < fields.length; at += REPORTS_PER_CALL) {
        const texts = await client.hmget(this.#hash, ...fields.slice(at, at + REPORTS_PER_CALL));
        for (const text of texts) if (text !== null) found.push(JSON.parse(text) as Report);
      }
      return found;
    });
  }

  async remove(field: string): Promise<void> {
    await this.#connection.call((client) =>
      client.multi().hdel(this.#hash, field).zrem(this.#times, field).exec(),
    );
  }
}

/** `ProcessBoard` in Redis. */
export async function openRedisProcessBoard(options: RedisBoardOptions): Promise<ProcessBoard> {
  const tag = `{${checkKeyPrefix(options.prefix)}processes}`;
  const connection = await RedisConnection.open(options);
  const keptMs = options.keptMs ?? PROCESS_REPORT_TTL_MS;
  const reports = new Reports<ProcessReport>(connection, [`${tag}reports`, `${tag}times`], keptMs);
  return {
    report: (report) => reports.put([report], ({ process }) => process),
    withdraw: (process) => reports.remove(process),
    read: () => reports.read(),
    close: () => connection.close(),
  };
}

/**
 * Adds samples, as `addSamples` does. A destination has a hash for each hour of minutes, and for each day of hours, which
 * expires as a whole. `KEYS`: the hash of each sample. `ARGV`: field, sample and retention in ms of each.
 */
const ADD_SAMPLES = new Script(`
local worse = { closed = 0, ['half-open'] = 1, open = 2 }
for i, key in ipairs(KEYS) do
  local field, sample, kept = ARGV[3 * i - 2], cjson.decode(ARGV[3 * i - 1]), ARGV[3 * i]
  local before = redis.call('HGET', key, field)
  if before then
    before = cjson.decode(before)
    for _, name in ipairs({ 'delivered', 'retry', 'dead', 'put_off' }) do
      sample[name] = sample[name] + before[name]
    end
    for _, name in ipairs({ 'waiting', 'oldest_waiting_ms' }) do
      sample[name] = math.max(sample[name], before[name])
    end
    for bucket, count in pairs(before.latency) do
      sample.latency[bucket] = (sample.latency[bucket] or 0) + count
    end
    if worse[before.circuit] > worse[sample.circuit] then sample.circuit = before.circuit end
  end
  redis.call('HSET', key, field, cjson.encode(sample))
  redis.call('PEXPIRE', key, kept)
end
return 0
`);

/** The length of what one hash holds of each resolution, ms. */
const HASH_MS = { minute: 3_600_000, hour: 24 * 3_600_000 } as const;

const RESOLUTIONS = Object.keys(HEALTH_RESOLUTIONS) as readonly HealthResolution[];

const SAMPLES_PER_CALL = 100;

/** `HealthBoard` in Redis: a hash of reports for each workspace, and hashes of samples. */
export async function openRedisHealthBoard(options: RedisBoardOptions): Promise<HealthBoard> {
  const { keptMs = HEALTH_REPORT_TTL_MS } = options;
  const prefix = checkKeyPrefix(options.prefix);
  const connection = await RedisConnection.open(options);
  const reportsOf = (workspaceId: string) => {
    const tag = `{${prefix}h:${workspaceId}}`;
    return new Reports<HealthReport>(connection, [`${tag}reports`, `${tag}told`], keptMs);
  };

  const hashOf = (workspaceId: string, destinationId: string, resolution: HealthResolution, at: number) =>
    `{${prefix}h:${workspaceId}}${resolution}:${destinationId}:${Math.floor(at / HASH_MS[resolution])}`;

  const addSamplesTo = (samples: readonly HealthSample[]) => {
    const writes = samples.flatMap((sample) =>
      RESOLUTIONS.map((resolution) => {
        const { workspace_id, destination_id } = sample;
        const at = startOf(sample.at, resolution);
        const key = hashOf(workspace_id, destination_id, resolution, at);
        const kept = HEALTH_RESOLUTIONS[resolution].keptMs + HASH_MS[resolution];
        return { key, args: [String(at), storedSample({ ...sample, at }), String(kept)] };
      }),
    );
    const keys = writes.map(({ key }) => key);
    return connection.call((client) =>
      ADD_SAMPLES.run(
        client,
        keys,
        writes.flatMap(({ args }) => args),
      ),
    );
  };

  return {
    async report(reports) {
      for (const [workspaceId, ofWorkspace] of Map.groupBy(reports, ({ workspace_id }) => workspace_id))
        await reportsOf(workspaceId).put(ofWorkspace, fieldOf);
    },

    async read(workspaceId, destinationIds) {
      const wanted = destinationIds && new Set(destinationIds);
      return reportsOf(workspaceId).read((field) => wanted?.has(destinationIn(field)) ?? true);
    },

    async record(samples) {
      // A script takes keys of one slot, those of a workspace.
      for (const [, ofWorkspace] of Map.groupBy(samples, ({ workspace_id }) => workspace_id))
        for (let at = 0; at < ofWorkspace.length; at += SAMPLES_PER_CALL)
          await addSamplesTo(ofWorkspace.slice(at, at + SAMPLES_PER_CALL));
    },

    async history({ workspaceId, destinationId, resolution, from, until }) {
      const keys: string[] = [];
      for (let at = from - (from % HASH_MS[resolution]); at < until; at += HASH_MS[resolution])
        keys.push(hashOf(workspaceId, destinationId, resolution, at));
      const hashes = await connection.call((client) => Promise.all(keys.map((key) => client.hvals(key))));
      return hashes
        .flat()
        .map(sampleIn)
        .filter(({ at }) => at >= from && at < until)
        .sort((a, b) => a.at - b.at);
    },

    close: () => connection.close(),
  };
}

/** A sample with its latencies by bucket, as Lua cannot tell an empty list from an empty object. */
type StoredSample = Omit<HealthSample, 'latency'> & { readonly latency: Readonly<Record<string, number>> };

function storedSample({ latency, ...sample }: HealthSample): string {
  return JSON.stringify({ ...sample, latency: Object.fromEntries(latency) } satisfies StoredSample);
}

function sampleIn(text: string): HealthSample {
  const { latency, ...sample } = JSON.parse(text) as StoredSample;
  const counts: LatencyCounts = Object.entries(latency).map(([bucket, count]) => [Number(bucket), count]);
  return { ...sample, latency: counts.toSorted(([a], [b]) => a - b) };
}

/** Ids contain no space. */
function fieldOf({ destination_id, process }: HealthReport): string {
  return `${destination_id} ${process}`;
}

function destinationIn(field: string): string {
  return field.slice(0, field.indexOf(' '));
}
