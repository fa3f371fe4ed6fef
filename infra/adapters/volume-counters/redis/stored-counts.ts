import {
  type CountedPartition,
  ENVIRONMENT_CODES,
  ENVIRONMENT_OF_CODE,
  type Environment,
  EVENT_TYPE_CODES,
  EVENT_TYPE_OF_CODE,
  type EventType,
  MAX_NAMES,
  OTHER_NAME,
  type VolumeBatch,
  type VolumeIncrement,
} from '@tributary/core';
import { type RedisClient, Script } from '../../redis/index.ts';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/** Number of characters of a field before the event's name. */
export const FIELD_HEAD = 3;

/** The meaning of a field of a day's counts. */
interface CountedField {
  readonly hour: number;
  readonly environment: Environment;
  readonly eventType: EventType;
  readonly eventName: string;
}

/** Days (UTC) since the epoch. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Epoch seconds at which a day's counts expire: queries reach back 720 hours, i.e. a month and the current day. */
export function expiryOf(day: number): number {
  return ((day + 33) * DAY_MS) / 1_000;
}

/** One character each for hour of the day, environment and type, then the name. */
export function fieldOf({ hour, environment, eventType, eventName }: VolumeIncrement): string {
  const ofDay = (hour - dayOf(hour) * DAY_MS) / HOUR_MS;
  return `${ofDay.toString(36)}${ENVIRONMENT_CODES[environment]}${EVENT_TYPE_CODES[eventType]}${eventName}`;
}

/** A field of a day's run counts: the hour, epoch ms, and the measure. */
export function runField(hour: number, measure: string): string {
  return `${hour}:${measure}`;
}

/** Undefined for a field that this version does not know. */
export function parseField(day: number, field: string): CountedField | undefined {
  const environment = ENVIRONMENT_OF_CODE.get(field.charAt(1));
  const eventType = EVENT_TYPE_OF_CODE.get(field.charAt(2));
  if (environment === undefined || eventType === undefined) return undefined;
  const hour = day * DAY_MS + Number.parseInt(field.charAt(0), 36) * HOUR_MS;
  return { hour, environment, eventType, eventName: field.slice(FIELD_HEAD) };
}

/**
 * The names of keys. All keys of one partition have its hash tag, so that they are in one cluster slot, and one script can
 * change them together.
 */
export class VolumeKeys {
  /** Set of all partitions that were ever counted, which reads sum over. */
  readonly partitions: string;
  /** Sorted set: the last use of keys that send no events. */
  readonly touched: string;
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.partitions = `${prefix}v:partitions`;
    this.touched = `${prefix}v:touched`;
  }

  applied(partition: string): string {
    return `${this.#tag(partition)}applied`;
  }

  /** Sorted set: the last use of each write key in this partition. */
  uses(partition: string): string {
    return `${this.#tag(partition)}uses`;
  }

  /** Hash of the counts of one workspace and day. */
  counts(partition: string, day: number, workspaceId: string): string {
    return `${this.#tag(partition)}c:${day}:${workspaceId}`;
  }

  /** Hash of the run counts of one transformation and day. */
  runs(day: number, workspaceId: string, transformationId: string): string {
    return `${this.#prefix}v:r:${day}:${workspaceId}:${transformationId}`;
  }

  #tag(partition: string): string {
    return `{${this.#prefix}v:${partition}}`;
  }
}

/** The name of a partition in keys and as a member of `partitions`. */
export function partitionName({ topic, partition }: CountedPartition): string {
  return `${topic}/${partition}`;
}

/**
 * Applies one batch. Returns the applied offset instead if it is not `from`.
 *
 * KEYS: applied offset, key uses, then a hash of counts per (workspace, day).
 * ARGV: from, to, number of key uses, (at, key) of each; then for each hash its expiry, number of increments, and
 * (field, count) of each.
 *
 * All or nothing: nothing is written before the fence, and Redis checks its memory limit once, at the first write of a
 * script. The writes reach the append-only file and the replicas as one transaction.
 *
 * An increment usually costs one HINCRBY, whose result reveals a new field. Names are checked only when there is a new
 * field and the hash has more fields than the limit of names. Then a set of the counted names is created from the older
 * fields, and every later new field is checked against it. The count of a field beyond the limit moves to the other name.
 */
const APPLY = new Script(`
local stored = redis.call('GET', KEYS[1]) or '0'
if stored ~= ARGV[1] then return stored end
redis.call('SET', KEYS[1], ARGV[2])
local at = 4
for _ = 1, tonumber(ARGV[3]) do
  redis.call('ZADD', KEYS[2], 'GT', ARGV[at], ARGV[at + 1])
  at = at + 2
end

local function initNames(names, hash, added)
  local isAdded = {}
  for _, field in ipairs(added) do isAdded[field] = true end
  for _, field in ipairs(redis.call('HKEYS', hash)) do
    local name = string.sub(field, ${FIELD_HEAD + 1})
    if not isAdded[field] and name ~= '${OTHER_NAME}' then redis.call('SADD', names, name) end
  end
end

local function limitNames(hash, added)
  local names = hash .. ':names'
  if redis.call('EXISTS', names) == 0 then initNames(names, hash, added) end
  local total = redis.call('SCARD', names)
  for _, field in ipairs(added) do
    local name = string.sub(field, ${FIELD_HEAD + 1})
    if name ~= '${OTHER_NAME}' and redis.call('SISMEMBER', names, name) == 0 then
      if total < ${MAX_NAMES} then
        redis.call('SADD', names, name)
        total = total + 1
      else
        local count = redis.call('HGET', hash, field)
        redis.call('HDEL', hash, field)
        redis.call('HINCRBY', hash, string.sub(field, 1, ${FIELD_HEAD}) .. '${OTHER_NAME}', count)
      end
    end
  end
  return names
end

local call, args = redis.call, ARGV
for i = 3, #KEYS do
  local hash, added = KEYS[i], {}
  local expiry, last = args[at], at + 2 * tonumber(args[at + 1])
  for j = at + 2, last, 2 do
    local field, count = args[j], args[j + 1]
    if call('HINCRBY', hash, field, count) == tonumber(count) then added[#added + 1] = field end
  end
  if #added > 0 then
    redis.call('EXPIREAT', hash, expiry)
    if redis.call('HLEN', hash) > ${MAX_NAMES} then
      redis.call('EXPIREAT', limitNames(hash, added), expiry)
    end
  end
  at = last + 2
end
return false
`);

/** Undefined when the batch was applied, else the applied offset, which is not `batch.from`. */
export async function applyBatch(
  client: RedisClient,
  keys: VolumeKeys,
  batch: VolumeBatch,
): Promise<string | undefined> {
  const partition = partitionName(batch);
  const scriptKeys = [keys.applied(partition), keys.uses(partition)];
  const args = [String(batch.from), String(batch.to), String(batch.keyUses.length)];
  for (const { keyId, at } of batch.keyUses) args.push(String(at), keyId);
  for (const { day, workspaceId, increments } of byHash(batch.increments)) {
    scriptKeys.push(keys.counts(partition, day, workspaceId));
    args.push(String(expiryOf(day)), String(increments.length));
    for (const increment of increments) args.push(fieldOf(increment), String(increment.count));
  }
  const stored = await APPLY.run(client, scriptKeys, args);
  return typeof stored === 'string' ? stored : undefined;
}

interface HashIncrements {
  readonly day: number;
  readonly workspaceId: string;
  readonly increments: VolumeIncrement[];
}

function byHash(increments: readonly VolumeIncrement[]): Iterable<HashIncrements> {
  const hashes = new Map<string, HashIncrements>();
  for (const increment of increments) {
    // An increment of 0 would create a field that seems new with every batch.
    if (increment.count === 0) continue;
    const { workspaceId, hour } = increment;
    const day = dayOf(hour);
    const name = `${day}:${workspaceId}`;
    const known = hashes.get(name);
    if (known === undefined) hashes.set(name, { day, workspaceId, increments: [increment] });
    else known.increments.push(increment);
  }
  return hashes.values();
}
