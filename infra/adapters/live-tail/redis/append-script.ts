import type { TailLimits } from '@tributary/core';
import { type RedisClient, Script } from '../../redis/index.ts';
import type { Block } from './blocks.ts';

/**
 * Adds blocks of one partition to one tail and cuts it to its limits, or answers the mark that is in the way.
 *
 * KEYS: state, blocks. ARGV: name of the mark, first offset, next mark, end of the partition or '', events left out
 * before the first block (then nothing older is kept either), events and characters of a tail at most, ms it is kept, channel; then count, characters and
 * text of each block.
 *
 * All or nothing: nothing is written before the mark was looked at, and Redis looks once, at the first write, whether
 * a script may take memory. The id of an entry ends in the number of its last event, so it grows with every entry; it
 * begins with the time, so it does so too after a failover that took the newest entries back.
 *
 * What the script has to know of a tail's oldest entries is in the state: it reads an entry only to remove it.
 */
const APPEND = new Script(`
local call, state, blocks = redis.call, KEYS[1], KEYS[2]
local mark = tonumber(call('HGET', state, ARGV[1]) or 0)
if ARGV[4] ~= '' and mark > tonumber(ARGV[4]) then mark = 0 end
if mark > tonumber(ARGV[2]) then return mark end

local function text(number) return string.format('%.0f', number) end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = call('HMGET', state, 'era', 'number', 'size', 'ms', 'gone', 'goneSize')
local era = known[1] or text(now)
local number = tonumber(known[2] or 0) + tonumber(ARGV[5])
local size = tonumber(known[3] or 0)
local ms = math.max(now, tonumber(known[4] or 0))
local gone, goneSize = tonumber(known[5] or 0), tonumber(known[6] or 0)
call('HSET', state, ARGV[1], ARGV[3])
if ARGV[5] ~= '0' then
  call('DEL', blocks)
  gone, goneSize = number, size
end

local newest
for i = 10, #ARGV, 3 do
  number = number + tonumber(ARGV[i])
  size = size + tonumber(ARGV[i + 1])
  newest = text(ms) .. '-' .. text(number)
  call('XADD', blocks, newest, 'era', era, 'size', text(size), 'text', ARGV[i + 2])
end
while number - gone > tonumber(ARGV[6]) or size - goneSize > tonumber(ARGV[7]) do
  local oldest = call('XRANGE', blocks, '-', '+', 'COUNT', 1)[1]
  if not oldest or oldest[1] == newest then break end
  gone = tonumber(string.match(oldest[1], '%d+$'))
  goneSize = tonumber(oldest[2][4])
  call('XDEL', blocks, oldest[1])
end
call('HSET', state, 'era', era, 'number', text(number), 'size', text(size), 'ms', text(ms),
  'gone', text(gone), 'goneSize', text(goneSize))
call('PEXPIRE', state, ARGV[8])
call('PEXPIRE', blocks, ARGV[8])
call('PUBLISH', ARGV[9], '')
return false
`);

export interface TailWrite {
  readonly state: string;
  readonly blocks: string;
  readonly channel: string;
  /** Name of the partition. */
  readonly partition: string;
  readonly firstOffset: number;
  readonly nextMark: number;
  readonly end: number | undefined;
  /** Events before the blocks that would not be kept anyway, nor what came before them: they are numbered alone. */
  readonly leftOut: number;
  readonly written: readonly Block[];
}

/** Undefined when the blocks were added, else the mark that is beyond their first offset. */
export async function appendBlocks(
  client: RedisClient,
  write: TailWrite,
  limits: TailLimits,
): Promise<number | undefined> {
  const args = [
    `mark:${write.partition}`,
    write.firstOffset,
    write.nextMark,
    write.end ?? '',
    write.leftOut,
    limits.events,
    limits.characters,
    limits.retentionMs,
    write.channel,
  ].map(String);
  for (const { count, text } of write.written) args.push(String(count), String(text.length), text);
  const mark = await APPEND.run(client, [write.state, write.blocks], args);
  return mark === null ? undefined : Number(mark);
}
