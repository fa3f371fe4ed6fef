import type { Connector, ConnectorDescription, DeliveryResult, JsonObject } from '@tributary/core';
import {
  type ConnectorCall,
  createClientConnector,
  createProbe,
  type Part,
  type PartResult,
  type Probe,
  sendInParts,
} from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { deliveryJson } from '../delivery-body.ts';
import { classifyNetworkFailure, DELIVERED, RESET } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import {
  caField,
  createSettingsReader,
  hostField,
  passwordField,
  portField,
  secretNames,
  tlsField,
  usernameField,
} from '../settings.ts';
import type { RedisSettings, StreamClient } from './client.ts';

/** Deliveries of one batch at most. */
const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'stream'],
  additionalProperties: false,
  properties: {
    host: hostField('The Redis server (6.2 or newer), no cluster.'),
    port: portField(6379),
    tls: tlsField,
    ca: caField,
    username: usernameField,
    password: passwordField,
    database: {
      type: 'integer',
      title: 'Database',
      description: 'The number of the database.',
      minimum: 0,
      maximum: 1_000,
      default: 0,
    },
    stream: {
      type: 'string',
      title: 'Stream',
      description: 'Key of the stream; made by the first delivery.',
      examples: ['tributary:events'],
      pattern: '^[\\x21-\\x7e]{1,200}$',
    },
    max_length: {
      type: 'integer',
      title: 'Entries kept',
      description: 'The stream is cut to about so many entries, the oldest first. Absent: it is never cut.',
      minimum: 1_000,
      maximum: 1_000_000_000,
    },
    remember_hours: {
      type: 'integer',
      title: 'Hours to remember',
      description:
        'For so long a repeated delivery adds no second entry, for about 100 bytes of memory each; 0 remembers none.',
      minimum: 0,
      maximum: 168,
      default: 25,
    },
  },
} as const satisfies JsonObject;

const readSettings = createSettingsReader<RedisSettings>(settingsSchema);

const description: ConnectorDescription = {
  type: 'redis',
  title: 'Redis stream',
  description: [
    'Adds each delivery as one entry to a stream (`XADD`): the fields `id`, `type`, `message_id` and `body`, which is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }` as JSON. The entries of a batch are added together by one script.',
    'The same script keeps the ids of the last `remember_hours` in a sorted set, `{<stream>}:delivered`: within them a delivery adds one entry, however often it is sent.',
    'A server that is out of memory or loading its data, a replica and a broken connection are retried. A batch that is refused otherwise is sent again in parts: only an entry that is refused alone is dead. A wrong password, a missing permission, a key that is no stream and a server that is part of a cluster are dead.',
    'The connection test signs in, reads the length of the stream and runs the script without entries.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['database', 'stream', 'max_length', 'remember_hours'],
  safestFirst: { tls: [true, false] },
  maxBatch: MAX_BATCH,
  hasTest: true,
};

export const redis: ConnectorKind = { description, create: createRedisConnector };

/** A script blocks its server, so batches are small. */
const LIMITS = { events: MAX_BATCH, bytes: 4 * 1_024 * 1_024 };
const MAX_CLIENTS = 200;

export function createRedisConnector(context: ConnectorContext): Connector {
  return createClientConnector<RedisSettings, StreamClient>(context, {
    readSettings,
    limits: () => LIMITS,
    async open(settings) {
      const { openStreamClient } = await import('./client.ts');
      return openStreamClient(context.egress, settings);
    },
    maxClients: MAX_CLIENTS,
    keepsClient: () => false,
    classifyFailure: (error, { lastFailure }) => classifyRedisFailure(error, lastFailure),

    send(client, settings, batch, call) {
      const probe = createProbe(call, () => checkStream(client, settings));
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, probe),
        hasTimeToHalve: call.hasTimeToHalve,
      });
    },

    async test(client, settings, { deadline }) {
      await untilAborted(checkStream(client, settings), deadline);
      return { ok: true };
    },
  });
}

async function sendPart(
  client: StreamClient,
  settings: RedisSettings,
  part: Part,
  call: ConnectorCall,
  probe: Probe,
): Promise<PartResult> {
  const args = part.flatMap((delivery) => [
    delivery.id,
    delivery.event.type,
    delivery.message_id,
    deliveryJson(delivery),
  ]);
  try {
    await untilAborted(add(client, settings, args), call.deadline);
    return { result: DELIVERED, mayBeSplit: false };
  } catch (error) {
    if (!mayConcernEntries(error)) return { result: call.failed(error), mayBeSplit: false };
    const ofAll = await probe();
    // A refused command leaves the connection usable, so the client is kept.
    const ofEntry = classifyRedisFailure(error, undefined);
    return { result: ofAll ?? ofEntry ?? call.failed(error), mayBeSplit: ofAll === undefined };
  }
}

async function checkStream(client: StreamClient, settings: RedisSettings): Promise<void> {
  await add(client, settings, []);
  await client.length(settings.stream);
}

async function add(client: StreamClient, settings: RedisSettings, args: readonly string[]): Promise<void> {
  const { stream, remember_hours, max_length = 0 } = settings;
  await client.ready();
  await client.addOnce(stream, [String(remember_hours), String(max_length), ...args]);
}

/** First words of Redis errors about the configuration of the destination, which no retry changes. */
const REFUSALS = new Map([
  ['NOAUTH', 'not authenticated'],
  ['WRONGPASS', 'not authenticated'],
  ['NOPERM', 'permission denied'],
  ['WRONGTYPE', 'the key holds no stream'],
  ['MOVED', 'the server is part of a cluster'],
  ['ASK', 'the server is part of a cluster'],
  ['CROSSSLOT', 'the server is part of a cluster'],
  ['ERR', 'the server refused the command'],
]);

/**
 * The result of a failed command. `lastFailure` is the error of the connection, which the driver wraps. Undefined for an
 * error that is neither of Redis nor of the network.
 */
export function classifyRedisFailure(
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const network = classifyNetworkFailure(error);
  if (network !== undefined) return network;
  if (!(error instanceof Error)) return undefined;
  if (error.name === 'ReplyError') return classifyReply(error.message);
  if (lastFailure?.name === 'ReplyError') return classifyReply(lastFailure.message);
  const ofConnection = lastFailure === undefined ? undefined : classifyNetworkFailure(lastFailure);
  if (ofConnection !== undefined) return ofConnection;
  // Messages of the driver for a connection that closed during a command.
  return /^Connection is closed|^Stream isn't writeable|max retries/i.test(error.message) ? RESET : undefined;
}

/** Error replies about the server, its state or its configuration. */
const ABOUT_THE_SERVER = new Set([
  ...[...REFUSALS.keys()].filter((word) => word !== 'ERR'),
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'OOM',
  'READONLY',
  'TRYAGAIN',
]);

/** Whether an entry may have caused a refusal: `ERR`, which is unspecific, or an error word that Redis does not have. */
export function mayConcernEntries(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false;
  return !isClientLimit(error.message) && !ABOUT_THE_SERVER.has(causeIn(error.message));
}

function classifyReply(message: string): DeliveryResult {
  if (message.includes('max number of clients'))
    return { outcome: 'retry', throttled: true, reason: 'too many clients' };
  if (isClientLimit(message)) return { outcome: 'retry', throttled: true, reason: 'too many requests' };
  const cause = causeIn(message);
  const refusal = REFUSALS.get(cause);
  return refusal === undefined
    ? { outcome: 'retry', reason: `the server answered ${cause}` }
    : { outcome: 'dead', reason: refusal };
}

function isClientLimit(message: string): boolean {
  return message.includes('max number of clients') || /^ERR max (?:\w+ )?requests? limit/.test(message);
}

/** The error word: Redis begins its errors with a word in capitals; a proxy without its server may send any text. */
function causeIn(message: string): string {
  return scriptCause(message) ?? /^[A-Z]{2,20}\b/.exec(message)?.[0] ?? 'an error of its own';
}

/** Before Redis 7 an error inside a script is `ERR Error running script …: @user_script: <n>: <ERROR> …`. */
function scriptCause(message: string): string | undefined {
  return /@user_script: ?\d+: (?:-)?([A-Z]{2,20})\b/.exec(message)?.[1];
}
