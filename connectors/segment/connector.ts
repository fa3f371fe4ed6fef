import {
  type AnsweredRequest,
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
  type PersonDeletion,
  type SubscriptionPreview,
  Unavailable,
  withDoubles,
} from '@tributary/core';
import { type Agent, type Dispatcher, request } from 'undici';
import { type ConnectorCall, createClientConnector } from '../client/client-connector.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { NOT_VALID, STOPPED, Stopped, testResultOf } from '../failures.ts';
import { classifyResponse, excerptOf, type HttpResponse, httpClient, secretTexts } from '../http/client.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { memoizeByObject } from '../settings.ts';
import { DEDUPLICATION } from './deduplication.ts';
import definitions from './definitions.json' with { type: 'json' };
import type { Definition } from './definitions.ts';
import { hasDetails, keepDetails } from './details.ts';
import { isHostOf } from './hosts.ts';
import type { ActionOutcome, HttpAnswer, HttpSent, RecordedPreview, VendorCall } from './messages.ts';
import { type Job, PackHost } from './pack-process.ts';
import { maskedRequest, maskedText, maskedValue } from './preview.ts';
import { createSegmentReader, describeDestination, type SegmentSettings } from './settings.ts';
import { type Refusal, refusalIn } from './vendor-answers.ts';
import {
  audienceOf,
  type Called,
  choicesOf,
  deletionOf,
  hookResultOf,
  isAboutPerson,
} from './vendor-results.ts';

/** Read from a file: the pack itself is loaded by a process of its own, at the first delivery. */
export const DEFINITIONS = definitions as readonly unknown[] as readonly Definition[];

/** Names of the secrets of partners that destinations need. */
export const PARTNER_SECRETS: readonly string[] = [
  ...new Set(DEFINITIONS.flatMap(({ needs = [] }) => needs)),
].sort();

/**
 * One kind for each destination of the pack whose secrets of partners are all in `secrets`. The connectors of one catalog
 * share a host.
 */
export function segmentKinds(secrets: Readonly<Record<string, string>> = {}): readonly ConnectorKind[] {
  return DEFINITIONS.filter(({ needs = [] }) => needs.every((name) => Object.hasOwn(secrets, name))).map(
    (definition) => ({
      description: describeDestination(definition),
      create: (context) => createSegmentConnector(context, definition, hostOf(context)),
      prepare: (context) => prepareDetails(context, definition),
      close: closeHost,
    }),
  );
}

const hosts = new WeakMap<object, PackHost>();

/** Keyed by the egress guard, of which each catalog has one. It stays until `closeHost`. */
function hostOf({ egress, children, partnerSecrets = {} }: ConnectorContext): PackHost {
  const known = hosts.get(egress);
  if (known !== undefined) return known;
  const host = new PackHost({ ...children, secrets: partnerSecrets });
  host.enter();
  hosts.set(egress, host);
  return host;
}

async function closeHost({ egress }: ConnectorContext): Promise<void> {
  const host = hosts.get(egress);
  hosts.delete(egress);
  await host?.leave();
}

/** How long a process of the pack may take to start and to read a destination, ms. */
const DESCRIBED_WITHIN_MS = 30_000;
/** All destinations are read in one process, beside those of workspaces. */
const OF_NO_WORKSPACE = '';

async function prepareDetails(context: ConnectorContext, { destination, title }: Definition): Promise<void> {
  if (hasDetails(destination)) return;
  try {
    const job = { task: { op: 'describe', destination } as const, send: refuseToSend };
    const signal = AbortSignal.timeout(DESCRIBED_WITHIN_MS);
    const { details } = await hostOf(context).run(OF_NO_WORKSPACE, job, signal);
    if (details !== undefined) keepDetails(destination, details);
  } catch (error) {
    throw new Unavailable(`the actions of ${title} cannot be read`, { cause: error });
  }
}

type RunTask = Exclude<Job['task'], { readonly op: 'describe' | 'match' }>;

/** One event for each call: an event is at least one request, and rate limits count calls. */
const LIMITS = { events: 1 };

const NOT_ITS_HOST = {
  outcome: 'dead',
  reason: 'not sent: the settings lead to a host that is none of the destination',
  local: true,
} as const;

/** Requests of one call to a vendor: the pack follows pages for as long as an answer names a next one. */
const MAX_REQUESTS = 50;
const TOO_MANY_REQUESTS = {
  outcome: 'dead',
  reason: `the vendor has no end of pages after ${MAX_REQUESTS} requests`,
} as const;

const NOT_THE_PERSON = {
  outcome: 'dead',
  reason: 'not sent: the id of the person would lead the request elsewhere',
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
  /** Called with the requests of trials, by the destination that the trial is for. */
  const observers = new WeakMap<ConnectorDestination, (sent: HttpSent, answer?: HttpAnswer) => void>();

  const run = async (
    task: RunTask,
    agent: Agent,
    secrets: readonly string[],
    call: ConnectorCall,
  ): Promise<Called> => {
    const { workspaceId } = call.destination;
    const sentRequests: SentRequest[] = [];
    // Aborts requests that are still under way when the job has ended or its process was lost.
    const over = new AbortController();
    const signal = AbortSignal.any([call.deadline.signal, over.signal]);
    const send = async (sent: HttpSent) => {
      const about: SentRequest = { sent };
      sentRequests.push(about);
      if (task.op === 'call' && sentRequests.length > MAX_REQUESTS) {
        about.failure = TOO_MANY_REQUESTS;
        throw new Stopped('the call makes too many requests');
      }
      if (!isHostOf(definition.hosts, task.settings, new URL(sent.url).hostname)) {
        about.failure = NOT_ITS_HOST;
        throw new Stopped('the request goes to another host');
      }
      if (task.op === 'call' && task.call.kind === 'delete' && !isAboutPerson(sent, task.call)) {
        about.failure = NOT_THE_PERSON;
        throw new Stopped('the request is about something else');
      }
      try {
        const keyed = task.op === 'run' ? withKeyInBody(sent, destination, task.event) : sent;
        const observe = observers.get(call.destination);
        const forwarded = forwardRequest(agent, { ...keyed, url: rewriteUrl(sent.url) }, signal);
        if (observe !== undefined)
          forwarded.then(
            (answer) => observe(keyed, answer),
            () => observe(keyed),
          );
        const answer = await forwarded;
        about.answer = readAnswer(destination, answer, secrets);
        return answer;
      } catch (error) {
        about.failure = call.failed(error);
        throw error;
      }
    };
    try {
      const { outcomes } = await host.run(workspaceId, { task, send }, signal);
      const result = classifyActions(outcomes, sentRequests, secrets, context.clock());
      const output = maskedValue(outcomes[0]?.output ?? null, secrets);
      const last = sentRequests.at(-1);
      return { result, output, refusal: refusalOf(last, context.clock()), last: last?.sent };
    } catch (error) {
      return { result: call.failed(error), output: null };
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
      const called = await Promise.all(tasks.map((task) => run(task, agent, secrets, call)));
      return called.map(({ result }) => result);
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      const task = { op: 'test', ...ofDestination(definition, settings) } as const;
      const { result } = await run(task, agent, secrets, call);
      // Some tests look at the settings alone, and a good answer is of no interest.
      if (result.outcome !== 'delivered' && result.outcome !== 'unwanted') return testResultOf(result);
      return result.status === undefined ? { ok: true } : { ok: true, status: result.status };
    },
  });

  const callVendor = async (
    target: ConnectorDestination,
    call: VendorCall,
    options: { readonly signal: AbortSignal },
  ): Promise<Called> => {
    const ended = await connector.once(target, options, (agent, settings, made) => {
      const task = { op: 'call', call, ...ofDestination(definition, settings) } as const;
      return run(task, agent, secretsOf(settings), made);
    });
    return 'done' in ended ? ended.done : { result: ended.failed, output: null };
  };
  const { deletes, hasAudiences } = definition;

  let left: Promise<void> | undefined;
  return {
    ...connector,
    choices: async (target, query, options) =>
      choicesOf(await callVendor(target, { kind: 'choices', ...query }, options)),
    runHook: async (target, hook, options) =>
      hookResultOf(await callVendor(target, { kind: 'hook', ...hook }, options)),
    ...(deletes && {
      async deletePeople(target, people, options) {
        const results: PersonDeletion[] = [];
        for (const person of people) {
          const isKnown = deletes.some((name) => person[name] !== undefined);
          const called = isKnown && (await callVendor(target, { kind: 'delete', ...person }, options));
          results.push(
            called
              ? deletionOf(called)
              : { outcome: 'refused', reason: `not sent: people are known by ${deletes.join(' or ')}` },
          );
        }
        return results;
      },
    }),
    ...(hasAudiences && {
      createAudience: async (target, audience, options) =>
        audienceOf(await callVendor(target, { kind: 'create-audience', ...audience }, options)),
      findAudience: async (target, audience, options) =>
        audienceOf(await callVendor(target, { kind: 'find-audience', ...audience }, options)),
    }),
    async preview(target, event, { signal }) {
      const settings = readSettings(target.settings);
      if (settings === undefined) throw new InvalidInput(NOT_VALID);
      const secrets = secretsOf(settings);
      const { message_id } = event;
      const common = subscriptionsTask(definition, settings, { event, message_id, index: 0 }, target);
      const task = { op: 'preview' as const, ...common };
      const { previews } = await host.run(target.workspaceId, { task, send: refuseToSend }, signal);
      return previews.map((preview) => shownPreview(definition, preview, common, secrets));
    },
    async countMatches(target, events, { signal }) {
      const settings = readSettings(target.settings);
      if (settings === undefined) throw new InvalidInput(NOT_VALID);
      const triggers = [
        ...definition.presets.filter(({ name }) => settings.presets.includes(name)),
        ...settings.subscriptions,
      ].map(({ subscribe }) => subscribe);
      const task = { op: 'match', triggers, events: events.map(segmentEvent) } as const;
      const { matches = [] } = await host.run(target.workspaceId, { task, send: refuseToSend }, signal);
      return matches;
    },
    async deliverTrial(target, event, { signal }) {
      const settings = readSettings(target.settings);
      if (settings === undefined) throw new InvalidInput(NOT_VALID);
      const secrets = secretsOf(settings);
      const requests: AnsweredRequest[] = [];
      const own = { ...target };
      observers.set(own, (sent, answer) => requests.push(shownRequest(sent, answer, secrets)));
      const [result = STOPPED] = await connector.deliver(own, [trialDelivery(own, event)], { signal });
      return { result, requests };
    },
    close() {
      left ??= connector.close().then(() => host.leave());
      return left;
    },
  };
}

function refuseToSend(): Promise<never> {
  return Promise.reject(new Stopped('nothing is sent'));
}

type EventOfDelivery = Pick<Delivery, 'event' | 'message_id' | 'index' | 'replay' | 'idempotency_key'>;

function ofDestination({ destination, authorization }: Definition, { own }: SegmentSettings) {
  return { destination, settings: own, ...(authorization === undefined ? {} : { authorization }) };
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

/** The delivery of an event that no rule made. */
function trialDelivery({ id, workspaceId }: ConnectorDestination, event: CanonicalEvent): Delivery {
  return {
    id: event.message_id,
    workspace_id: workspaceId,
    environment: event.environment,
    destination_id: id,
    rule_id: '',
    message_id: event.message_id,
    index: 0,
    created_at: event.received_at,
    attempts: [],
    redrives: 0,
    event,
  };
}

function shownRequest(
  sent: HttpSent,
  answer: HttpAnswer | undefined,
  secrets: readonly string[],
): AnsweredRequest {
  const request = maskedRequest(sent, secrets);
  if (answer === undefined) return { ...request, response: null };
  const body = withoutTokens(maskedText(Buffer.from(answer.body, 'base64').toString('utf8'), secrets));
  return { ...request, response: { status: answer.status, body } };
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
  readonly sent?: HttpSent;
  answer?: VendorAnswer;
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
    excerpt: withoutTokens(excerptOf(bytes, secrets)),
    refusal: isOk ? refusalIn(destination, bytes) : undefined,
  };
}

/** Some actions get themselves a token first. */
function withoutTokens(text: string): string {
  return text.replace(/("access_token"\s*:\s*")[^"]*/g, '$1***');
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

/** Why the last request of a call got nothing, where the pack reports an error of its own. */
function refusalOf(last: SentRequest | undefined, now: number): DeliveryResult | undefined {
  if (last?.answer === undefined) return last?.failure;
  return last.answer.status >= 300 ? classifyResponse(last.answer, now) : undefined;
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
