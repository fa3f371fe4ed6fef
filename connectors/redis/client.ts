import type { Socket } from 'node:net';
import { MAX_CONCURRENCY } from '@tributary/core';
import { AbstractConnector, Redis } from 'ioredis';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { inspectResponses, limitBytes, type ResponseFilter } from '../egress/response-heads.ts';
import { ResponseRefused, ResponseTooLarge } from '../failures.ts';

/** The type of the schema above. */
export interface RedisSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly ca?: string;
  readonly username?: string;
  readonly password?: string;
  readonly database: number;
  readonly stream: string;
  readonly max_length?: number;
  readonly remember_hours: number;
}

/** Bytes of the replies to concurrent commands at most. */
const MAX_UNASKED_BYTES = 256 * 1_024;

/** The part of the driver that the connector uses. */
export interface StreamClient {
  /** The last error of the connection or of signing in. */
  readonly lastFailure: Error | undefined;
  /** Resolves once it is signed in. */
  ready(): Promise<void>;
  /** Runs `ADD_ONCE` on the stream and the ids beside it; resolves with the number of entries added. */
  addOnce(stream: string, args: readonly string[]): Promise<number>;
  length(stream: string): Promise<number>;
  close(): Promise<void>;
}

/** A client with one connection and no reconnects: after a failure the connector opens a new client. */
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
      const bounded = limitBytes(socket, MAX_UNASKED_BYTES);
      const replies = checkReplies(socket);
      return inspectResponses(socket, function* inspect(chunk) {
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
    // RESP2: its replies to the commands used here are one line each, which RESP3's are not.
    protocol: 2,
    disableClientInfo: true,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    // It would send INFO, which the user may not be permitted; a server that is not ready refuses the first command.
    enableReadyCheck: false,
    connectTimeout: 0,
  });
  let lastError: Error | undefined;
  redis.on('error', (error: Error) => {
    lastError = error;
  });
  let ready: Promise<void> | undefined;

  return {
    get lastFailure() {
      return lastError ?? connections.lastFailure;
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
 * KEYS: the stream, the set of delivered ids. ARGV: hours to remember, length of the stream or 0, then for each delivery its
 * id, type, message id and body. Adds the deliveries whose ids are not in the set; returns the number added.
 *
 * An id is added in the same script as its entry and after it: an entry that is refused (out of memory) leaves no id.
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

/** The key of the delivered ids, with the hash tag of the stream, so that both are in one slot. */
export function deliveredKey(stream: string): string {
  const [, tag] = /\{([^}]+)\}/.exec(stream) ?? [];
  return tag === undefined ? `{${stream}}:delivered` : `${stream}:delivered`;
}

/** Bytes of a one-line reply: the error of a script may quote some of it. */
const MAX_LINE_BYTES = 16 * 1_024;

/** Replies since the last write at most: those of concurrent commands, and a few of signing in. */
const MAX_LINES = 2 * MAX_CONCURRENCY;

const LINE_FEED = 0x0a;
/** `+`, `-` and `:`: a status, an error and a number. */
const EXPECTED = new Set([0x2b, 0x2d, 0x3a]);

/**
 * Passes the replies that the commands of this connector have, all of one line. Closes the connection at any other:
 * arrays (of any announced length or depth), bulk strings and pushes.
 */
function checkReplies(socket: Socket): ResponseFilter {
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
        throw new ResponseRefused('the server answers in a form that no command here has');
      const end = chunk.indexOf(LINE_FEED, at);
      inLine += (end === -1 ? chunk.length : end) - at;
      if (inLine > MAX_LINE_BYTES) throw new ResponseTooLarge('the answer is too long');
      if (end === -1) break;
      inLine = 0;
      lines += 1;
      if (lines > MAX_LINES)
        throw new ResponseTooLarge('the server sent more lines than its answer may have');
      at = end + 1;
    }
    yield chunk;
  };
}
