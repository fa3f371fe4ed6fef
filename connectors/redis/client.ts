import type { Socket } from 'node:net';
import { MAX_CONCURRENCY } from '@tributary/core';
import { AbstractConnector, Redis } from 'ioredis';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { boundedAnswers, type Inspect, inspectAnswers } from '../egress/response-inspection.ts';
import { AnswerRefused, TooMuchAnswered } from '../failures.ts';
import type { RedisSettings } from './settings.ts';

/** Replies to the calls that are made at a time. */
const MAX_UNASKED_BYTES = 256 * 1_024;

/** What of the driver is used. */
export interface StreamClient {
  /** What the connection, or signing in, met with last. */
  readonly lastFailure: Error | undefined;
  /** Resolves once it is signed in. */
  ready(): Promise<void>;
  /** Runs `ADD_ONCE` on the stream and the ids beside it; resolves with the number of entries added. */
  addOnce(stream: string, args: readonly string[]): Promise<number>;
  length(stream: string): Promise<number>;
  close(): Promise<void>;
}

/** A client with one connection that is never opened a second time: after a failure there is a new client. */
export function openStreamClient(egress: EgressGuard, settings: RedisSettings): StreamClient {
  const { host, port, tls, ca, username, password, database } = settings;
  const connections = new Connections(egress);
  const target = { host, port, tls: tls ? { ca } : undefined };

  class GuardedConnector extends AbstractConnector {
    constructor() {
      super(0);
    }
    override async connect() {
      const socket = connections.connect(target);
      const bounded = boundedAnswers(socket, MAX_UNASKED_BYTES);
      const replies = redisAnswers(socket);
      return inspectAnswers(socket, function* inspect(chunk) {
        for (const some of bounded(chunk)) yield* replies(some);
      });
    }
    override disconnect() {
      connections.end();
    }
  }

  const redis = new Redis({
    Connector: GuardedConnector,
    username,
    password,
    db: database,
    // Its replies to what is asked here are of one line each; those of the newer one are not.
    protocol: 2,
    disableClientInfo: true,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    // Asks for INFO, which a user may not be allowed; a server that is not ready says so to the first command.
    enableReadyCheck: false,
    connectTimeout: 0,
  });
  let told: Error | undefined;
  redis.on('error', (error: Error) => {
    told = error;
  });
  let ready: Promise<void> | undefined;

  return {
    get lastFailure() {
      return told ?? connections.lastFailure;
    },
    ready() {
      ready ??= redis.connect();
      return ready;
    },
    addOnce: async (stream, args) =>
      Number(await redis.eval(ADD_ONCE, 2, stream, deliveredKey(stream), ...args)),
    length: (stream) => redis.xlen(stream),
    async close() {
      redis.disconnect();
      connections.end();
    },
  };
}

/**
 * KEYS: the stream, the ids delivered. ARGV: hours to remember, length of the stream or 0, then per delivery its id,
 * type, message id and body. Adds those that were not there yet, all at once; answers how many.
 *
 * An id is noted in the same script as its entry, so neither is there without the other, and only after: an entry that
 * is refused (out of memory) leaves no note.
 */
const ADD_ONCE = `
local seconds = tonumber(ARGV[1]) * 3600
local now = tonumber(redis.call('TIME')[1])
local added = 0
for at = 3, #ARGV, 4 do
  local id = ARGV[at]
  if seconds == 0 or not redis.call('ZSCORE', KEYS[2], id) then
    local entry = { 'id', id, 'type', ARGV[at + 1], 'message_id', ARGV[at + 2], 'body', ARGV[at + 3] }
    if ARGV[2] == '0' then
      redis.call('XADD', KEYS[1], '*', unpack(entry))
    else
      redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(entry))
    end
    if seconds > 0 then redis.call('ZADD', KEYS[2], now, id) end
    added = added + 1
  end
end
if added > 0 and seconds > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - seconds)
  redis.call('EXPIRE', KEYS[2], seconds)
end
return added
`;

/** The ids delivered lie beside the stream, under the hash tag that the stream has or is. */
function deliveredKey(stream: string): string {
  const [, tag] = /\{([^}]+)\}/.exec(stream) ?? [];
  return tag === undefined ? `{${stream}}:delivered` : `${stream}:delivered`;
}

/** A reply is a line: an error of a script may quote some of it. */
const MAX_LINE_BYTES = 16 * 1_024;

/** Since something was last written: as many commands as calls are made at a time, and a few to sign in. */
const MAX_LINES = 2 * MAX_CONCURRENCY;

const LINE_FEED = 0x0a;
/** `+`, `-` and `:`: a status, an error and a number. */
const EXPECTED = new Set([0x2b, 0x2d, 0x3a]);

/**
 * Lets the replies through that the commands of this connector have: all of one line. Lists (which a server may nest
 * without end, or announce with any length), texts of any length and pushes are none of them.
 */
function redisAnswers(socket: Socket): Inspect {
  let inLine = 0;
  let written = 0;
  let lines = 0;
  return function* inspect(chunk) {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      lines = 0;
    }
    for (let at = 0; at < chunk.length; ) {
      const first = chunk[at];
      if (inLine === 0 && (first === undefined || !EXPECTED.has(first)))
        throw new AnswerRefused('the server answers in a form that no command here has');
      const end = chunk.indexOf(LINE_FEED, at);
      inLine += (end === -1 ? chunk.length : end) - at;
      if (inLine > MAX_LINE_BYTES) throw new TooMuchAnswered('the answer is too long');
      if (end === -1) break;
      inLine = 0;
      lines += 1;
      if (lines > MAX_LINES) throw new TooMuchAnswered('the server answers what it was not asked');
      at = end + 1;
    }
    yield chunk;
  };
}
