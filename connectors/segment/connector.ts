import {
  type CanonicalEvent,
  type Connector,
  type Delivery,
  type DeliveryResult,
  type JsonObject,
  withDoubles,
} from '@tributary/core';
import { type Agent, type Dispatcher, request } from 'undici';
import { type ConnectorCall, createClientConnector } from '../client/client-connector.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { Stopped, testResultOf } from '../failures.ts';
import { httpClient } from '../http/client.ts';
import { classifyResponse, excerptOf, secretTexts } from '../http/response.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { memoizeByObject } from '../settings.ts';
import definitions from './definitions.json' with { type: 'json' };
import type { Chosen, Definition } from './definitions.ts';
import type { ActionOutcome, HttpAnswer, HttpSent } from './messages.ts';
import { PackHost } from './pack-host.ts';
import type { Job } from './pack-process.ts';
import { createSegmentReader, describeDestination, type SegmentSettings } from './settings.ts';

/** Read from a file: the pack itself is loaded by a process of its own, at the first delivery. */
export const DEFINITIONS = definitions as readonly unknown[] as readonly Definition[];

/** One kind for each destination of the pack. The connectors of one catalog share a host. */
export function segmentKinds(): readonly ConnectorKind[] {
  return DEFINITIONS.map((definition) => ({
    description: describeDestination(definition),
    create: (context) => createSegmentConnector(context, definition, hostOf(context)),
  }));
}

const hosts = new WeakMap<object, PackHost>();

/** Keyed by the egress guard, of which each catalog has one. */
function hostOf({ egress, children }: Pick<ConnectorContext, 'egress' | 'children'>): PackHost {
  const host = hosts.get(egress) ?? new PackHost(children);
  hosts.set(egress, host);
  return host;
}

/** One event for each call: an event is at least one request, and rate limits count calls. */
const LIMITS = { events: 1 };

const secretsOf = memoizeByObject(({ secrets }: SegmentSettings) =>
  secretTexts({ secret: '', headers: secrets.map((text) => ['', text] as const) }),
);

export interface SegmentOptions {
  /** Rewrites the URL of a request. Default: the URL of the pack. */
  readonly rewriteUrl?: (url: string) => string;
}

export function createSegmentConnector(
  context: ConnectorContext,
  definition: Definition,
  host: PackHost,
  { rewriteUrl = (url) => url }: SegmentOptions = {},
): Connector {
  const { destination } = definition;
  const readSettings = createSegmentReader(definition);
  host.enter();

  const run = async (task: Job['task'], agent: Agent, secrets: readonly string[], call: ConnectorCall) => {
    const { workspaceId } = call.destination;
    const seen: { -readonly [Name in keyof NetworkOutcome]: NetworkOutcome[Name] } = {
      failure: undefined,
      status: undefined,
      retryAfter: undefined,
    };
    // Aborts requests that are still under way when the job has ended or its process was lost.
    const over = new AbortController();
    const signal = AbortSignal.any([call.deadline.signal, over.signal]);
    const send = async (sent: HttpSent) => {
      try {
        const answer = await forwardRequest(agent, { ...sent, url: rewriteUrl(sent.url) }, signal);
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
      return classifyActions(outcomes, seen, secrets, context.clock());
    } catch (error) {
      return call.failed(error);
    } finally {
      over.abort(new Stopped('the job is over'));
    }
  };

  const connector = createClientConnector<SegmentSettings, Agent>(context, {
    readSettings,
    limits: () => LIMITS,
    ...httpClient(context),

    async send(agent, settings, batch, call) {
      const secrets = secretsOf(settings);
      const tasks = batch.map((delivery) => taskOf(destination, definition, settings, delivery));
      return Promise.all(tasks.map((task) => run(task, agent, secrets, call)));
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      return testResultOf(
        await run({ op: 'test', destination, settings: settings.own }, agent, secrets, call),
      );
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

/** Segment's names of our fields. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
  received_at: 'receivedAt',
};

/** Our own fields, unknown to the pack. */
const OURS = new Set(['environment', 'workspace_id', 'source_id']);

/** An event as Segment's libraries send it. Numbers become doubles, as actions compute with them. */
function segmentEvent(event: CanonicalEvent): JsonObject {
  const entries = Object.entries(event).flatMap(([name, value]) =>
    OURS.has(name) || value === undefined ? [] : [[NAMES[name] ?? name, value] as const],
  );
  return withDoubles({ context: {}, integrations: {}, ...Object.fromEntries(entries) });
}

/** Bytes of a response body that are passed to the pack at most. */
const MAX_RESPONSE_BYTES = 64 * 1_024;

/** Headers of the connection and the framing, which the HTTP client sets. */
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
async function forwardRequest(
  dispatcher: Dispatcher,
  sent: HttpSent,
  signal: AbortSignal,
): Promise<HttpAnswer> {
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
    // A received status line counts, even if its headers break off.
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
      if (read > MAX_RESPONSE_BYTES) break;
      chunks.push(chunk);
    }
  } catch (error) {
    // The body broke off; the status line counts.
    if (signal.aborted) throw error;
  }
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || TRANSPORT.has(name) ? [] : [[name, String(value)] as const],
  );
  return { status: statusCode, headers: pairs, body: Buffer.concat(chunks).toString('base64') };
}

/** The network errors and responses of an event's actions. */
interface NetworkOutcome {
  /** The result of the last request without a response. */
  readonly failure: DeliveryResult | undefined;
  /** The status of the last response. */
  readonly status: number | undefined;
  readonly retryAfter: string | undefined;
}

/** The result of a delivery, the worst result of its actions. `now` is epoch ms. */
export function classifyActions(
  outcomes: readonly ActionOutcome[],
  seen: NetworkOutcome,
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const failed = outcomes.flatMap(({ action, error }) =>
    error === undefined ? [] : [classifyActionError(action, error, seen, secrets, now)],
  );
  const worst = failed.find(({ outcome }) => outcome === 'retry') ?? failed[0];
  if (worst !== undefined) return worst;
  const status = seen.status === undefined ? {} : { status: seen.status };
  return outcomes.length === 0
    ? { outcome: 'delivered', response: 'no action takes this event' }
    : { outcome: 'delivered', ...status };
}

function classifyActionError(
  action: string,
  { name, status, message }: NonNullable<ActionOutcome['error']>,
  seen: NetworkOutcome,
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const excerpt = excerptOf(Buffer.from(message), secrets);
  if (status !== undefined && status >= 300) {
    const verdict = classifyResponse({ status, retryAfter: seen.retryAfter, excerpt }, now);
    return 'reason' in verdict ? { ...verdict, reason: `${action} ${verdict.reason}` } : verdict;
  }
  if (seen.failure !== undefined) return seen.failure;
  // The pack has its own timeout, which may be shorter than the deadline of the call.
  if (name === 'TimeoutError') return { outcome: 'retry', reason: 'timed out' };
  const why = /^[A-Za-z]{1,60}$/.test(name) ? name : 'Error';
  // Actions are deterministic: a retry would fail in the same way.
  return {
    outcome: 'dead',
    reason: `${action} failed (${why})`,
    ...(excerpt === '' ? {} : { response: excerpt }),
  };
}
