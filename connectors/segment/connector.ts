import {
  type Access,
  type CanonicalEvent,
  type Connector,
  type ConnectorDestination,
  type Delivery,
  type DeliveryResult,
  InvalidInput,
  integrationFor,
  isObject,
  isUuid,
  type Json,
  type JsonObject,
  nameId,
  objectIn,
  type SubscriptionPreview,
  Unavailable,
  withDoubles,
} from '@tributary/core';
import { type Agent, type Dispatcher, request } from 'undici';
import { type ConnectorCall, createClientConnector } from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { NOT_VALID, Stopped, testResultOf } from '../failures.ts';
import { classifyResponse, excerptOf, type HttpResponse, httpClient, secretTexts } from '../http/client.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { Service } from '../oauth/grants.ts';
import { type OAuthClients, PROVIDERS, providerOf } from '../oauth/providers.ts';
import { memoizeByObject } from '../settings.ts';
import { DEDUPLICATION } from './deduplication.ts';
import definitions from './definitions.json' with { type: 'json' };
import type { Definition } from './definitions.ts';
import { hasDetails, keepDetails } from './details.ts';
import { isHostOf } from './hosts.ts';
import type { ActionOutcome, HttpAnswer, HttpSent, RecordedPreview } from './messages.ts';
import { type Job, PackHost } from './pack-process.ts';
import { maskedRequest, maskedText, maskedValue } from './preview.ts';
import { createSegmentReader, describeDestination, type SegmentSettings } from './settings.ts';
import { refusesToken } from './token-refusals.ts';
import { type Refusal, refusalIn } from './vendor-answers.ts';

/** Read from a file: the pack itself is loaded by a process of its own, at the first delivery. */
export const DEFINITIONS = definitions as readonly unknown[] as readonly Definition[];

/** Names of the secrets of partners that destinations need. */
export const PARTNER_SECRETS: readonly string[] = [
  ...new Set(DEFINITIONS.flatMap(({ needs = [] }) => needs)),
].sort();

/**
 * One kind for each destination of the pack whose secrets of partners are all in `secrets`, and whose service has a client in
 * `clients`. The connectors of one catalog share a host.
 */
export function segmentKinds(
  secrets: Readonly<Record<string, string>> = {},
  clients: OAuthClients = {},
): readonly ConnectorKind[] {
  return DEFINITIONS.filter(
    (definition) =>
      (definition.needs ?? []).every((name) => Object.hasOwn(secrets, name)) &&
      (definition.authorization !== 'connection' || serviceOf(definition, clients) !== undefined),
  ).map((definition) => ({
    description: describeDestination(definition, serviceOf(definition, clients)?.provider.title),
    create: (context) => createSegmentConnector(context, definition, hostOf(context)),
    prepare: (context) => prepareDetails(context, definition),
  }));
}

/** The service that a destination is connected with; undefined for others, and where the installation has no client there. */
export function serviceOf(
  { destination, authorization }: Pick<Definition, 'destination' | 'authorization'>,
  clients: OAuthClients,
): Service | undefined {
  const asked = authorization === 'connection' ? providerOf(destination) : undefined;
  const provider = asked && PROVIDERS[asked.provider];
  const client = asked && clients[asked.provider];
  return provider && client && { provider, client, scopes: asked.scopes };
}

/** What the pack's processes find in their environment. Secrets of OAuth 2 clients are not among it. */
function environmentOf({ partnerSecrets = {}, oauthClients = {} }: ConnectorContext) {
  const ids = DEFINITIONS.flatMap((definition): [string, string][] => {
    const name = providerOf(definition.destination)?.clientIdIn;
    const service = serviceOf(definition, oauthClients);
    return name === undefined || service === undefined ? [] : [[name, service.client.id]];
  });
  return { ...partnerSecrets, ...Object.fromEntries(ids) };
}

const hosts = new WeakMap<object, PackHost>();

/** Keyed by the egress guard, of which each catalog has one. */
function hostOf(context: ConnectorContext): PackHost {
  const { egress, children } = context;
  const host = hosts.get(egress) ?? new PackHost({ ...children, secrets: environmentOf(context) });
  hosts.set(egress, host);
  return host;
}

/** How long a process of the pack may take to start and to read a destination, ms. */
const DESCRIBED_WITHIN_MS = 30_000;

/** One at a time: each is a process that starts, reads one destination and ends. */
let preparing: Promise<void> = Promise.resolve();

function prepareDetails(context: ConnectorContext, definition: Definition): Promise<void> {
  if (hasDetails(definition.destination)) return Promise.resolve();
  const prepared = preparing.then(() => readDetails(context, definition));
  preparing = prepared.catch(() => undefined);
  return prepared;
}

async function readDetails(context: ConnectorContext, { destination, title }: Definition): Promise<void> {
  if (hasDetails(destination)) return;
  const host = new PackHost({ ...context.children, secrets: environmentOf(context) });
  host.enter();
  try {
    const job = { task: { op: 'describe', destination } as const, send: refuseToSend };
    const { details } = await host.run('', job, AbortSignal.timeout(DESCRIBED_WITHIN_MS));
    if (details !== undefined) keepDetails(destination, details);
  } catch (error) {
    throw new Unavailable(`the actions of ${title} cannot be read`, { cause: error });
  } finally {
    await host.leave();
  }
}

type RunTask = Exclude<Job['task'], { readonly op: 'describe' }>;

/** One event for each call: an event is at least one request, and rate limits count calls. */
const LIMITS = { events: 1 };

const NOT_ITS_HOST = {
  outcome: 'dead',
  reason: 'not sent: the settings lead to a host that is none of the destination',
  local: true,
} as const;

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
  const partner = Object.values(context.partnerSecrets ?? {});
  const secretsOf = memoizeByObject(({ secrets }: SegmentSettings) =>
    secretTexts({ secret: '', headers: [...secrets, ...partner].map((text) => ['', text] as const) }),
  );
  host.enter();

  /** Runs a task with the access token of its connection, where it has one; once more with another, where it is refused. */
  const run = async (
    task: RunTask,
    agent: Agent,
    secrets: readonly string[],
    call: ConnectorCall,
  ): Promise<DeliveryResult> => {
    if (definition.authorization !== 'connection') return (await runOnce(task, agent, secrets, call)).result;
    const access = await accessFor(call);
    if (access.kind !== 'token') return withoutAccess(access);
    const { token } = access;
    const first = await runOnce(withAccess(task, access), agent, [token, ...secrets], call);
    if (!first.sent.some(({ isTokenRefused }) => isTokenRefused)) return first.result;
    const renewed = await accessFor(call, token);
    if (renewed.kind !== 'token') return withoutAccess(renewed);
    // It was renewed for a refusal a moment ago: the account may lack a right, or have taken back the access.
    if (renewed.token === token) return tokenRefused(first.result);
    // The actions before the one whose token was refused are done; all of them run again at the next attempt.
    if (first.sent.length > 1) return { outcome: 'retry', reason: 'the access token was renewed' };
    const second = withAccess(task, renewed);
    const last = await runOnce(second, agent, [renewed.token, ...secrets], call);
    return last.sent.some(({ isTokenRefused }) => isTokenRefused) ? tokenRefused(last.result) : last.result;
  };

  const runOnce = async (task: RunTask, agent: Agent, secrets: readonly string[], call: ConnectorCall) => {
    const { workspaceId } = call.destination;
    const sentRequests: SentRequest[] = [];
    // Aborts requests that are still under way when the job has ended or its process was lost.
    const over = new AbortController();
    const signal = AbortSignal.any([call.deadline.signal, over.signal]);
    const send = async (sent: HttpSent) => {
      const about: SentRequest = {};
      sentRequests.push(about);
      if (!isHostOf(definition.hosts, task.settings, new URL(sent.url).hostname)) {
        about.failure = NOT_ITS_HOST;
        throw new Stopped('the request goes to another host');
      }
      try {
        const keyed = task.op === 'run' ? withKeyInBody(sent, destination, task.event) : sent;
        const answer = await forwardRequest(agent, { ...keyed, url: rewriteUrl(sent.url) }, signal);
        about.answer = readAnswer(destination, answer, secrets);
        about.isTokenRefused =
          answer.status === 401 || refusesToken(destination, Buffer.from(answer.body, 'base64'));
        return answer;
      } catch (error) {
        about.failure = call.failed(error);
        throw error;
      }
    };
    try {
      const { outcomes } = await host.run(workspaceId, { task, send }, signal);
      const result = classifyActions(outcomes, sentRequests, secrets, context.clock());
      return { result, sent: sentRequests };
    } catch (error) {
      return { result: call.failed(error), sent: sentRequests };
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
      const tasks = batch.map((delivery) => ({
        op: 'run' as const,
        ...subscriptionsTask(definition, settings, delivery, call.destination),
      }));
      return Promise.all(tasks.map((task) => run(task, agent, secrets, call)));
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      const task = { op: 'test', ...ofDestination(definition, settings) } as const;
      const result = await run(task, agent, secrets, call);
      // Some tests look at the settings alone, and a good answer is of no interest.
      if (result.outcome !== 'delivered' && result.outcome !== 'unwanted') return testResultOf(result);
      return result.status === undefined ? { ok: true } : { ok: true, status: result.status };
    },
  });

  let left: Promise<void> | undefined;
  return {
    ...connector,
    async preview(target, event, { signal }) {
      const settings = readSettings(target.settings);
      if (settings === undefined) throw new InvalidInput(NOT_VALID);
      const secrets = secretsOf(settings);
      const { message_id } = event;
      const stored = { ...settings, own: { ...settings.own, ...target.connected } };
      const common = subscriptionsTask(definition, stored, { event, message_id, index: 0 }, target);
      const task = { op: 'preview' as const, ...common };
      const { previews } = await host.run(target.workspaceId, { task, send: refuseToSend }, signal);
      return previews.map((preview) => shownPreview(definition, preview, common, secrets));
    },
    close() {
      left ??= connector.close().then(() => host.leave());
      return left;
    },
  };
}

const NO_ACCESS: Access = { kind: 'later', reason: 'the destination is not connected' };

/** A refusal of the token is none of the event, which waits. */
function tokenRefused({ status, response }: DeliveryResult): DeliveryResult {
  return {
    outcome: 'retry',
    reason: 'the service refuses the access token',
    ...(status === undefined ? {} : { status }),
    ...(response === undefined ? {} : { response }),
  };
}

async function accessFor({ destination, deadline }: ConnectorCall, refused?: string): Promise<Access> {
  return destination.access === undefined ? NO_ACCESS : untilAborted(destination.access(refused), deadline);
}

function withoutAccess(access: Exclude<Access, { kind: 'token' }>): DeliveryResult {
  const reason = `not sent: ${access.reason}`;
  if (access.kind === 'refused') return { outcome: 'retry', reason, disconnected: true };
  const { afterMs } = access;
  return { outcome: 'retry', reason, ...(afterMs === undefined ? {} : { afterMs }) };
}

function withAccess<T extends RunTask>(task: T, { token, settings }: Extract<Access, { kind: 'token' }>): T {
  return { ...task, settings: { ...task.settings, ...settings, accessToken: token } };
}

function refuseToSend(): Promise<never> {
  return Promise.reject(new Stopped('nothing is sent'));
}

type EventOfDelivery = Pick<Delivery, 'event' | 'message_id' | 'index' | 'replay' | 'idempotency_key'>;

function ofDestination({ destination, authorization }: Definition, { own }: SegmentSettings) {
  // The access token of a connection reaches the pack as that of the settings does.
  const way = authorization === 'connection' ? 'token' : authorization;
  return { destination, settings: own, ...(way === undefined ? {} : { authorization: way }) };
}

function subscriptionsTask(
  definition: Definition,
  settings: SegmentSettings,
  delivery: EventOfDelivery,
  { id, name = '' }: ConnectorDestination,
) {
  const { type, presets: known, integrations: names } = definition;
  const { presets, subscriptions } = settings;
  const event: JsonObject = { ...segmentEvent(delivery.event), messageId: messageIdOf(delivery) };
  const integrations = objectIn(event.integrations);
  const options = integrationFor(integrations, { id, name, type });
  return {
    ...ofDestination(definition, settings),
    presets: presets.filter((preset) => known.some((one) => one.name === preset)),
    subscriptions,
    // Mappings read the options of a destination under the name that it has at Segment.
    event: isObject(options)
      ? {
          ...event,
          integrations: { ...integrations, ...Object.fromEntries(names.map((one) => [one, options])) },
        }
      : event,
  };
}

/** A preview with the requests as they would be sent, without secrets. */
function shownPreview(
  { destination, hosts: patterns }: Definition,
  { subscription, action, matches, payload, requests, error }: RecordedPreview,
  { settings, event }: { readonly settings: JsonObject; readonly event: JsonObject },
  secrets: readonly string[],
): SubscriptionPreview {
  const strays = requests.some(({ url }) => !isHostOf(patterns, settings, new URL(url).hostname));
  return {
    subscription,
    action,
    matches,
    payload: maskedValue(payload, secrets),
    requests: requests.map((sent) => maskedRequest(withKeyInBody(sent, destination, event), secrets)),
    error: strays ? NOT_ITS_HOST.reason : error === null ? null : maskedText(error, secrets),
  };
}

/**
 * The id by which a vendor recognizes the event: its message id, the same at every attempt and in every replay without
 * `new_ids`. The further outputs of a transformation, and a replay with new ids, are events of their own.
 */
function messageIdOf({ message_id, index, replay, idempotency_key }: EventOfDelivery): string {
  const output = index === 0 ? message_id : `${message_id}:${index}`;
  return replay === undefined || idempotency_key !== undefined ? output : `${output}:${replay}`;
}

/** The request with the id as the vendor's key of deduplication in its body, where the pack has no field for that. */
function withKeyInBody(sent: HttpSent, destination: string, event: JsonObject): HttpSent {
  const messageId = String(event.messageId);
  const member = DEDUPLICATION[destination]?.member;
  if (member === undefined || sent.body === '') return sent;
  const body = JSON.parse(Buffer.from(sent.body, 'base64').toString('utf8')) as Json;
  const keyOf = (at: number) => {
    if (member !== 'uuid') return at === 0 ? messageId : `${messageId}:${at}`;
    return at === 0 && isUuid(messageId) ? messageId.toLowerCase() : nameId('message', messageId, String(at));
  };
  const keyed = (event: Json, at: number) => (isObject(event) ? { [member]: keyOf(at), ...event } : event);
  const { batch } = objectIn(body);
  const whole = Array.isArray(batch) ? { ...objectIn(body), batch: batch.map(keyed) } : keyed(body, 0);
  return { ...sent, body: Buffer.from(JSON.stringify(whole)).toString('base64') };
}

/** Segment's names of our fields. */
const NAMES: Readonly<Record<string, string>> = {
  message_id: 'messageId',
  user_id: 'userId',
  anonymous_id: 'anonymousId',
  group_id: 'groupId',
  previous_id: 'previousId',
  received_at: 'receivedAt',
};

/** Our own fields, unknown to the pack. */
const OURS = new Set(['environment', 'workspace_id', 'source_id']);

/**
 * The call that the event was made from, as Segment's libraries send it: with the fields that ingestion keeps in
 * `context.segment`, and without its notes. Numbers become doubles, as actions compute with them. An identify has its traits
 * in `context.traits` too, where presets read them.
 */
export function segmentEvent(event: CanonicalEvent): JsonObject {
  const entries = Object.entries(event).flatMap(([name, value]) =>
    OURS.has(name) || value === undefined ? [] : [[NAMES[name] ?? name, value] as const],
  );
  const { segment, tributary, ...context } = event.context ?? {};
  const { context: moved, batch: _, timestamp: sentTime, type: sentType, ...fields } = objectIn(segment);
  return withDoubles({
    integrations: {},
    ...(sentTime === undefined ? {} : { originalTimestamp: sentTime }),
    ...fields,
    ...Object.fromEntries(entries),
    ...convertedBefore(event, sentType),
    context: {
      ...(event.type === 'identify' && event.traits !== undefined ? { traits: event.traits } : {}),
      ...context,
      ...objectIn(objectIn(tributary).context),
      ...objectIn(moved),
    },
  });
}

/** Release 0.2.0 stored a screen as a page, and an alias as an identify with `context.alias`. */
function convertedBefore({ type, context }: CanonicalEvent, sentType: Json | undefined): JsonObject {
  if (type === 'page' && sentType === 'screen') return { type: sentType };
  if (type !== 'identify' || sentType !== 'alias') return {};
  const { previous_id: previousId } = objectIn(context?.alias);
  return previousId === undefined ? { type: sentType } : { type: sentType, previousId };
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

/** A request of an action: its answer, or why there is none. */
interface SentRequest {
  answer?: VendorAnswer;
  isTokenRefused?: boolean;
  failure?: DeliveryResult;
}

interface VendorAnswer extends HttpResponse {
  /** Set where an answer of 2xx says that nothing was stored. */
  readonly refusal: Refusal | undefined;
}

function readAnswer(
  destination: string,
  { status, headers, body }: HttpAnswer,
  secrets: readonly string[],
): VendorAnswer {
  const bytes = Buffer.from(body, 'base64');
  const isOk = status >= 200 && status < 300;
  return {
    status,
    retryAfter: headers.find(([name]) => name === 'retry-after')?.[1],
    // Some actions get themselves a token first.
    excerpt: excerptOf(bytes, secrets).replace(/("access_token"\s*:\s*")[^"]*/g, '$1***'),
    refusal: isOk ? refusalIn(destination, bytes) : undefined,
  };
}

/**
 * The result of a delivery, the worst result of its actions, which made `sentRequests` one after the other. `now` is epoch
 * ms.
 */
export function classifyActions(
  outcomes: readonly ActionOutcome[],
  sentRequests: readonly SentRequest[],
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  let at = 0;
  const results = outcomes.map((outcome) => {
    const own = sentRequests.slice(at, at + outcome.requests);
    at += outcome.requests;
    return classifyAction(outcome, own, secrets, now);
  });
  const failed = results.filter(({ outcome }) => outcome === 'retry' || outcome === 'dead');
  const retried = failed.filter(({ outcome }) => outcome === 'retry');
  // A failure uses a retry step also beside a refusal for the rate, and the vendor's word goes before a refusal of ours.
  const worst =
    retried.find((result) => !('throttled' in result)) ??
    retried[0] ??
    failed.find((result) => !('local' in result)) ??
    failed[0];
  if (worst !== undefined) {
    if (!('throttled' in worst) || failed.length === outcomes.length) return worst;
    // The actions that succeeded are repeated with the refused one: as rarely as after a failure.
    const { throttled: _, ...retry } = worst;
    return retry;
  }
  const delivered = results.findLast(({ outcome }) => outcome === 'delivered');
  return delivered ?? results[0] ?? { outcome: 'unwanted', reason: 'not sent: no action takes it' };
}

function classifyAction(
  { action, error }: ActionOutcome,
  requests: readonly SentRequest[],
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  if (error !== undefined) return classifyActionError(action, error, requests, secrets, now);
  const refused = requests.find(({ answer }) => answer?.refusal !== undefined)?.answer;
  if (refused?.refusal !== undefined) return classifyRefusal(action, refused, refused.refusal, now);
  const last = requests.at(-1)?.answer;
  if (last === undefined) return { outcome: 'unwanted', reason: `not sent: ${action} made no request of it` };
  const { status, excerpt } = last;
  return { outcome: 'delivered', status, ...(excerpt === '' ? {} : { response: excerpt }), recorded: true };
}

/** An answer of 2xx whose body says that nothing was stored counts as the status in the body, else as one of 400. */
function classifyRefusal(
  action: string,
  { status, retryAfter, excerpt }: VendorAnswer,
  { says, code = 400 }: Refusal,
  now: number,
): DeliveryResult {
  const verdict = classifyResponse({ status: Math.max(400, code), retryAfter, excerpt }, now);
  return {
    ...asFailure(verdict),
    status,
    reason: `${action} answered ${status}, but stored nothing: ${says}`,
  };
}

type FailedResult = Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>;

function asFailure(result: DeliveryResult): FailedResult {
  if (result.outcome === 'retry' || result.outcome === 'dead') return result;
  throw new Error('a refusal was classified as a success');
}

function classifyActionError(
  action: string,
  { name, status, message }: NonNullable<ActionOutcome['error']>,
  requests: readonly SentRequest[],
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const last = requests.at(-1);
  if (last?.failure !== undefined) return last.failure;
  if (last?.answer !== undefined && last.answer.status >= 300) {
    const verdict = asFailure(classifyResponse(last.answer, now));
    return { ...verdict, reason: `${action} ${verdict.reason}` };
  }
  // The pack has its own timeout, which may be shorter than the deadline of the call.
  if (name === 'TimeoutError') return { outcome: 'retry', reason: 'timed out' };
  const why = /^[A-Za-z]{1,60}$/.test(name) ? name : 'Error';
  const said = excerptOf(Buffer.from(message), secrets);
  const reason = said === '' ? `${action} failed (${why})` : `${action}: ${said} (${why})`;
  // Actions are deterministic: without an answer a retry would fail in the same way.
  if (last?.answer === undefined)
    return name === 'RetryableError'
      ? { outcome: 'retry', reason: `not sent: ${reason}` }
      : { outcome: 'dead', reason: `not sent: ${reason}`, local: true };
  // The action read a refusal in an answer of 2xx.
  return {
    ...asFailure(classifyResponse({ ...last.answer, status: Math.max(400, status ?? 0) }, now)),
    reason,
  };
}
