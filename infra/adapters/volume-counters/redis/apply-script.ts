import { MAX_NAMES, OTHER_NAME, type VolumeBatch, type VolumeIncrement } from '@tributary/core';
import { type RedisClient, Script } from '../../redis/index.ts';
import { dayOf, expiryOf, FIELD_HEAD, fieldOf } from './fields.ts';
import { nameOf, type VolumeKeys } from './keys.ts';

/**
 * Applies one batch, or answers the offset that is applied in place of `from`.
 *
 * KEYS: applied offset, key uses, then a hash of counts per (workspace, day).
 * ARGV: from, to, how many key uses, (at, key) of each; then for each hash its expiry, how many increments, and
 * (field, count) of each.
 *
 * All or nothing: nothing is written before the fence, and Redis looks once, at the first write, whether a script may
 * take memory. Its writes reach the append-only file and the replicas as one transaction.
 *
 * The usual increment costs one HINCRBY. What it answers tells a new field; only where one came up and the hash has
 * more fields than names are allowed are names looked at: those counted are then kept in a set beside the hash. It is
 * made from the fields that were there before, and from then on every new field passes by it, since a hash does not
 * shrink. A new field too many is taken out again, what it counted goes to the other name.
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

local function remember(names, hash, added)
  local isAdded = {}
  for _, field in ipairs(added) do isAdded[field] = true end
  for _, field in ipairs(redis.call('HKEYS', hash)) do
    local name = string.sub(field, ${FIELD_HEAD + 1})
    if not isAdded[field] and name ~= '${OTHER_NAME}' then redis.call('SADD', names, name) end
  end
end

local function limitNames(hash, added)
  local names = hash .. ':names'
  if redis.call('EXISTS', names) == 0 then remember(names, hash, added) end
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

/** Undefined when the batch was applied, else the offset that is applied in place of `batch.from`. */
export async function applyBatch(
  client: RedisClient,
  keys: VolumeKeys,
  batch: VolumeBatch,
): Promise<string | undefined> {
  const partition = nameOf(batch);
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
    // An increment of nothing would make a field that looks new for ever.
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
