import { AbstractConnector, Redis } from 'ioredis';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { boundedAnswers, inspectAnswers } from '../egress/inspected-answers.ts';
import { redisAnswers } from './answers.ts';
import { ADD_ONCE } from './script.ts';
import type { RedisSettings } from './settings.ts';

/** Replies to the calls that are made at a time. */
const MAX_UNASKED_BYTES = 256 * 1_024;

/** What of the driver is used. */
export interface StreamClient {
  /** What the connection, or signing in, met with last. */
  readonly lastFailure: Error | undefined;
  /** Resolves once it is signed in. */
  ready(): Promise<void>;
  /** How many entries were added. Arguments as the script says. */
  addOnce(keys: readonly [string, string], args: readonly string[]): Promise<number>;
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
    addOnce: async (keys, args) => Number(await redis.eval(ADD_ONCE, 2, ...keys, ...args)),
    length: (stream) => redis.xlen(stream),
    async close() {
      redis.disconnect();
      connections.end();
    },
  };
}
