import {
  ENVIRONMENT_CODES,
  ENVIRONMENT_OF_CODE,
  type FollowOptions,
  type LiveEvent,
  type LiveTail,
  TAIL_LIMITS,
  type TailBatch,
  type TailedEvent,
  type TailFollower,
  type TailLimits,
} from '@tributary/core';
import {
  checkKeyPrefix,
  RedisConnection,
  type RedisStoreOptions,
  RedisSubscriptions,
  Script,
} from '../../redis/index.ts';
import { Feeds, idOf, type NumberedEvent, type TailSource } from '../feeds.ts';

/** Stream entries per read. */
const ENTRIES_PER_READ = 32;
/** Interval of reads of a followed tail without a notification, ms. */
const POLL_MS = 1_000;

export interface RedisLiveTailOptions extends RedisStoreOptions {
  readonly limits?: TailLimits;
}

/**
 * `LiveTail` in Redis: for each workspace a stream of blocks of events, and a state with its numbers and marks in the same
 * slot, changed by the same script. Changes are announced on a channel of the workspace. A process uses one connection for
 * all its channels, and reads each change once for all its followers.
 *
 * `InvalidInput` when the server may evict keys. Calls are `Unavailable` while it does not answer.
 */
export async function openRedisLiveTail(options: RedisLiveTailOptions): Promise<LiveTail> {
  const keys = new TailKeys(checkKeyPrefix(options.prefix));
  const connection = await RedisConnection.open(options);
  return new RedisLiveTail(connection, keys, options);
}

class RedisLiveTail implements LiveTail {
  readonly #connection: RedisConnection;
  readonly #keys: TailKeys;
  readonly #limits: TailLimits;
  readonly #feeds: Feeds;

  constructor(connection: RedisConnection, keys: TailKeys, options: RedisLiveTailOptions) {
    this.#connection = connection;
    this.#keys = keys;
    this.#limits = options.limits ?? TAIL_LIMITS;
    this.#feeds = new Feeds((changed) => this.#source(options, changed), {
      limits: this.#limits,
      logger: options.logger,
      pollMs: POLL_MS,
    });
  }

  async append(batch: TailBatch): Promise<number> {
    const byWorkspace = Map.groupBy(batch.events, ({ workspaceId }) => workspaceId);
    const marks = await Promise.all(
      [...byWorkspace].map(([workspaceId, events]) => this.#appendTo(workspaceId, batch, events)),
    );
    return Math.max(0, ...marks);
  }

  follow(workspaceId: string, options: FollowOptions): Promise<TailFollower> {
    return this.#feeds.follow(workspaceId, options);
  }

  async close(): Promise<void> {
    await this.#feeds.close();
    await this.#connection.close();
  }

  /** Appends the events beyond the partition's mark. Returns the mark if it is beyond the first event, else 0. */
  async #appendTo(
    workspaceId: string,
    { topic, partition, end }: TailBatch,
    events: readonly TailedEvent[],
  ): Promise<number> {
    let mark = 0;
    for (let rest = events; ; rest = rest.filter(({ offset }) => offset >= mark)) {
      const [first, last] = [rest[0], rest.at(-1)];
      if (first === undefined || last === undefined) return mark;
      const kept = newestWithin(rest, this.#limits);
      const args = [
        `mark:${topic}/${partition}`,
        first.offset,
        last.offset + 1,
        end ?? '',
        rest.length - kept.length,
        this.#limits.events,
        this.#limits.characters,
        this.#limits.retentionMs,
        this.#keys.channel(workspaceId),
      ].map(String);
      for (const { count, text } of blocksOf(kept)) args.push(String(count), String(text.length), text);
      const keys = [this.#keys.state(workspaceId), this.#keys.blocks(workspaceId)];
      const beyond = await this.#connection.call((client) => APPEND.run(client, keys, args));
      if (beyond === null) return mark;
      mark = Number(beyond);
    }
  }

  #source({ logger }: RedisLiveTailOptions, changed: (workspaceId: string) => void): TailSource {
    const watched = new Set<string>();
    const subscriptions = new RedisSubscriptions({
      client: this.#connection.subscriber(),
      logger,
      onMessage: (channel) => changed(this.#keys.workspaceOf(channel)),
      onSubscribed: () => {
        for (const workspaceId of watched) changed(workspaceId);
      },
    });
    return {
      read: (workspaceId, from) => this.#read(workspaceId, from),
      watch: (workspaceId) => {
        watched.add(workspaceId);
        subscriptions.add(this.#keys.channel(workspaceId));
      },
      unwatch: (workspaceId) => {
        watched.delete(workspaceId);
        subscriptions.remove(this.#keys.channel(workspaceId));
      },
      close: async () => subscriptions.close(),
    };
  }

  async #read(workspaceId: string, from: string | undefined) {
    const blocks = this.#keys.blocks(workspaceId);
    const start = from === undefined ? '-' : `(${from}`;
    const entries = await this.#connection.call((client) =>
      client.xrange(blocks, start, '+', 'COUNT', ENTRIES_PER_READ),
    );
    return {
      events: entries.flatMap(([id, fields]) => eventsIn(id, fields)),
      next: entries.at(-1)?.[0] ?? from,
      more: entries.length === ENTRIES_PER_READ,
    };
  }
}

/** Limits of a block with more than one event. A tail is trimmed block by block. */
const BLOCK_EVENTS = 100;
const BLOCK_CHARACTERS = 64 * 1024;

/** Events in one entry of the stream: one line each, with a character for the environment and the data. */
interface Block {
  readonly count: number;
  readonly text: string;
}

/** The newest events that fit into the limits, at least one. */
function newestWithin<E extends LiveEvent>(events: readonly E[], limits: TailLimits): readonly E[] {
  let from = events.length;
  for (let characters = 0; from > 0 && events.length - from < limits.events; from--) {
    characters += events[from - 1]?.data.length ?? 0;
    if (characters > limits.characters && from < events.length) break;
  }
  return from === 0 ? events : events.slice(from);
}

function blocksOf(events: readonly LiveEvent[]): readonly Block[] {
  const blocks: Block[] = [];
  let lines: string[] = [];
  let characters = 0;
  const close = () => {
    if (lines.length > 0) blocks.push({ count: lines.length, text: lines.join('\n') });
    lines = [];
    characters = 0;
  };
  for (const { environment, data } of events) {
    if (lines.length === BLOCK_EVENTS || characters + data.length > BLOCK_CHARACTERS) close();
    lines.push(ENVIRONMENT_CODES[environment] + data);
    characters += data.length;
  }
  close();
  return blocks;
}

/** The events of an entry of the stream. Its id is `<ms>-<number of its last event>`. */
function eventsIn(id: string, fields: readonly string[]): readonly NumberedEvent[] {
  const values = new Map<string, string>();
  for (let i = 0; i < fields.length; i += 2) values.set(fields[i] ?? '', fields[i + 1] ?? '');
  const [ms = '', last = ''] = id.split('-');
  const [era, lines] = [values.get('era') ?? '', (values.get('text') ?? '').split('\n')];
  const first = Number(last) - lines.length + 1;
  return lines.map((line, index) => {
    const number = first + index;
    const environment = ENVIRONMENT_OF_CODE.get(line.charAt(0)) ?? 'production';
    return { id: idOf(era, ms, number), era, number, environment, data: line.slice(1) };
  });
}

/**
 * The names of a workspace's keys and channel. Both keys have its hash tag, so that they are in one cluster slot, and one
 * script can change them together.
 */
class TailKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Hash: era, number of the newest event, sizes, and for each partition the offset up to which it was appended. */
  state(workspaceId: string): string {
    return `${this.#tag(workspaceId)}state`;
  }

  /** Stream of blocks of events. */
  blocks(workspaceId: string): string {
    return `${this.#tag(workspaceId)}blocks`;
  }

  /** The channel on which changes of the tail are announced. */
  channel(workspaceId: string): string {
    return `${this.#prefix}l:${workspaceId}`;
  }

  workspaceOf(channel: string): string {
    return channel.slice(this.#prefix.length + 2);
  }

  #tag(workspaceId: string): string {
    return `{${this.#prefix}l:${workspaceId}}`;
  }
}

/**
 * Appends blocks of one partition to one tail and trims it to its limits. Returns the partition's mark instead, i.e. the
 * offset up to which it was appended, if it is beyond the first offset.
 *
 * KEYS: state, blocks. ARGV: field of the mark, first offset, next mark, end of the partition or '', number of events left
 * out before the first block (if any, nothing older is kept either), maximum of events and of characters, retention in ms,
 * channel; then count, characters and text of each block.
 *
 * - All or nothing: nothing is written before the mark was checked, and Redis checks its memory limit once, at the first
 *   write of a script.
 * - Entry ids always increase: they end in the number of the last event, and begin with the time, so that they increase
 *   even after a failover that lost the newest entries.
 * - The state holds the sizes of removed entries, so that an entry is read only to be removed.
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
