import {
  type CanonicalEvent,
  type Connector,
  type Delivery,
  type DeliveryResult,
  type JsonObject,
  withDoubles,
} from '@tributary/core';
import { type Agent, type Dispatcher, request } from 'undici';
import { type Call, createClientConnector } from '../client/client-connector.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { Stopped, testedBy } from '../failures.ts';
import { overHttp } from '../http/client.ts';
import { excerptOf, secretTexts, verdictOfAnswer } from '../http/response.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { oncePer } from '../settings.ts';
import definitions from './definitions.json' with { type: 'json' };
import type { Chosen, Definition } from './definitions.ts';
import type { ActionOutcome, HttpAnswer, HttpSent } from './messages.ts';
import { PackHost } from './pack-host.ts';
import type { Job } from './pack-process.ts';
import { createSegmentReader, describeDestination, type SegmentSettings } from './settings.ts';

/** What is made of the pack, read from a file: the pack itself is loaded by its own process, with the first delivery. */
export const DEFINITIONS = definitions as readonly unknown[] as readonly Definition[];

/** One kind for each chosen destination; all made by one catalog share a process. */
export function segmentKinds(): readonly ConnectorKind[] {
  return DEFINITIONS.map((definition) => ({
    description: describeDestination(definition),
    create: (context) => createSegmentConnector(context, definition, hostOf(context)),
  }));
}

const hosts = new WeakMap<object, PackHost>();

/** By the guard, which each catalog has one of. */
function hostOf({ egress, children }: Pick<ConnectorContext, 'egress' | 'children'>): PackHost {
  const host = hosts.get(egress) ?? new PackHost(children);
  hosts.set(egress, host);
  return host;
}

/** Events one call takes: each is at least one request, and calls are what a place is protected from. */
const LIMITS = { events: 1 };

const secretsOf = oncePer(({ secrets }: SegmentSettings) =>
  secretTexts({ secret: '', headers: secrets.map((text) => ['', text] as const) }),
);

export interface SegmentOptions {
  /** Where a request goes in truth. Default: where the pack sends it. */
  readonly place?: (url: string) => string;
}

export function createSegmentConnector(
  context: ConnectorContext,
  definition: Definition,
  host: PackHost,
  { place = (url) => url }: SegmentOptions = {},
): Connector {
  const { destination } = definition;
  const readSettings = createSegmentReader(definition);
  host.enter();

  const run = async (task: Job['task'], agent: Agent, secrets: readonly string[], call: Call) => {
    const { workspaceId } = call.destination;
    const seen: { -readonly [Name in keyof Seen]: Seen[Name] } = {
      failure: undefined,
      status: undefined,
      retryAfter: undefined,
    };
    // What the pack still asks for when its job is over, or was lost with its process, is called off.
    const over = new AbortController();
    const signal = AbortSignal.any([call.deadline.signal, over.signal]);
    const send = async (sent: HttpSent) => {
      try {
        const answer = await sendFor(agent, { ...sent, url: place(sent.url) }, signal);
        seen.status = answer.status;
        seen.retryAfter = answer.headers.find(([name]) => name === 'retry-after')?.[1];
        return answer;
      } catch (error) {
        seen.failure = call.failed(error);
        throw error;
      }
    };
    try {
      const outcomes = await host.run(workspaceId, { task, send }, signal);
      return verdictOfActions(outcomes, seen, secrets, context.clock());
    } catch (error) {
      return call.failed(error);
    } finally {
      over.abort(new Stopped('the job is over'));
    }
  };

  const connector = createClientConnector<SegmentSettings, Agent>(context, {
    readSettings,
    limits: () => LIMITS,
    ...overHttp(context),

    async send(agent, settings, batch, call) {
      const secrets = secretsOf(settings);
      const tasks = batch.map((delivery) => taskOf(destination, definition, settings, delivery));
      return Promise.all(tasks.map((task) => run(task, agent, secrets, call)));
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      return testedBy(await run({ op: 'test', destination, settings: settings.own }, agent, secrets, call));
    },
  });

  let left: Promise<void> | undefined;
  return {
    ...connector,
    close() {
      left ??= connector.close().then(() => host.leave());
      return left;
    },
  };
}

function taskOf(
  destination: Chosen,
  { presets }: Definition,
  { own, presets: chosen, actions }: SegmentSettings,
  { event }: Delivery,
): Job['task'] {
  const names = chosen ?? presets.map(({ name }) => name);
  return {
    op: 'run',
    destination,
    settings: own,
    presets: names,
    subscriptions: actions,
    event: segmentEvent(event),
  };
}

/** The names the pack has for what is named otherwise here. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
  received_at: 'receivedAt',
};

/** Ours alone: no destination of the pack knows what to do with them. */
const OURS = new Set(['environment', 'workspace_id', 'source_id']);

/** An event as Segment's libraries would have sent it. Actions compute with numbers, so they get doubles. */
function segmentEvent(event: CanonicalEvent): JsonObject {
  const entries = Object.entries(event).flatMap(([name, value]) =>
    OURS.has(name) || value === undefined ? [] : [[NAMES[name] ?? name, value] as const],
  );
  return withDoubles({ context: {}, integrations: {}, ...Object.fromEntries(entries) });
}

/** Bytes of an answer that the pack is given at most. */
const MAX_ANSWER_BYTES = 64 * 1_024;

/** Headers that speak about the connection or the framing, which the HTTP client alone decides. */
const TRANSPORT = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'transfer-encoding',
  'expect',
  'upgrade',
]);

/** Sends a request of the pack. Redirects are not followed. */
async function sendFor(dispatcher: Dispatcher, sent: HttpSent, signal: AbortSignal): Promise<HttpAnswer> {
  let announced: number | undefined;
  const answered = await request(sent.url, {
    dispatcher,
    method: sent.method as Dispatcher.HttpMethod,
    headers: sent.headers.filter(([name]) => !TRANSPORT.has(name)).flat(),
    body: sent.body === '' ? null : Buffer.from(sent.body, 'base64'),
    signal,
    onInfo: ({ headers }) => {
      announced = Number(headers[ANNOUNCED_STATUS]) || undefined;
    },
  }).catch((error: unknown) => {
    // The status line stands, also where the headers behind it break off.
    if (announced === undefined || signal.aborted) throw error;
    return undefined;
  });
  if (answered === undefined) return { status: announced ?? 0, headers: [], body: '' };
  const { statusCode, headers, body } = answered;
  const chunks: Uint8Array[] = [];
  let read = 0;
  try {
    for await (const chunk of body) {
      read += chunk.length;
      if (read > MAX_ANSWER_BYTES) break;
      chunks.push(chunk);
    }
  } catch (error) {
    // A body that breaks off.
    if (signal.aborted) throw error;
  }
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || TRANSPORT.has(name) ? [] : [[name, String(value)] as const],
  );
  return { status: statusCode, headers: pairs, body: Buffer.concat(chunks).toString('base64') };
}

/** What was seen of the network while an event's actions ran. */
interface Seen {
  /** What the last request that got no answer met with. */
  readonly failure: DeliveryResult | undefined;
  /** Of the last answer. */
  readonly status: number | undefined;
  readonly retryAfter: string | undefined;
}

/** What the actions of an event mean for its delivery: the worst of them counts. `now` is epoch ms. */
export function verdictOfActions(
  outcomes: readonly ActionOutcome[],
  seen: Seen,
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const failed = outcomes.flatMap(({ action, error }) =>
    error === undefined ? [] : [verdictOfError(action, error, seen, secrets, now)],
  );
  const worst = failed.find(({ outcome }) => outcome === 'retry') ?? failed[0];
  if (worst !== undefined) return worst;
  const status = seen.status === undefined ? {} : { status: seen.status };
  return outcomes.length === 0
    ? { outcome: 'delivered', response: 'no action takes this event' }
    : { outcome: 'delivered', ...status };
}

function verdictOfError(
  action: string,
  { name, status, message }: NonNullable<ActionOutcome['error']>,
  seen: Seen,
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const excerpt = excerptOf(Buffer.from(message), secrets);
  if (status !== undefined && status >= 300) {
    const verdict = verdictOfAnswer({ status, retryAfter: seen.retryAfter, excerpt }, now);
    return 'reason' in verdict ? { ...verdict, reason: `${action} ${verdict.reason}` } : verdict;
  }
  if (seen.failure !== undefined) return seen.failure;
  // The pack has a deadline of its own, which may be shorter than a call's.
  if (name === 'TimeoutError') return { outcome: 'retry', reason: 'timed out' };
  const why = /^[A-Za-z]{1,60}$/.test(name) ? name : 'Error';
  // What an action makes of an event is the same every time.
  return {
    outcome: 'dead',
    reason: `${action} failed (${why})`,
    ...(excerpt === '' ? {} : { response: excerpt }),
  };
}
