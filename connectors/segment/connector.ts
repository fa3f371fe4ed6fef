import {
  type Access,
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
  subjectOf,
  Unavailable,
} from '@tributary/core';
import type { Agent, Dispatcher } from 'undici';
import {
  type ConnectorCall,
  createClientConnector,
  type Part,
  sendInParts,
} from '../client/client-connector.ts';
import { type AbortLike, Deadline, untilAborted } from '../client/deadlines.ts';
import { NOT_VALID, STOPPED, Stopped, testResultOf } from '../failures.ts';
import { httpClient, secretTexts, sendRequest } from '../http/client.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { Service } from '../oauth/grants.ts';
import { type OAuthClients, PROVIDERS, providerOf } from '../oauth/providers.ts';
import { memoizeByObject } from '../settings.ts';
import { DEDUPLICATION } from './deduplication.ts';
import definitions from './definitions.json' with { type: 'json' };
import { type Definition, isHostOf } from './definitions.ts';
import { hasDetails, keepDetails } from './details.ts';
import type {
  HttpAnswer,
  HttpSent,
  Progress,
  RecordedPreview,
  SubjectEvent,
  UnitRequest,
  VendorCall,
} from './messages.ts';
import { type Job, PackHost } from './pack-process.ts';
import {
  audienceOf,
  type Called,
  choicesOf,
  deletionOf,
  hookResultOf,
  isAboutPerson,
  LOST,
  maskedRequest,
  maskedText,
  maskedValue,
  PackRun,
  readAnswer,
  type UnitVerdict,
  withoutTokens,
  worstOf,
} from './pack-run.ts';
import { createSegmentReader, describeDestination, type SegmentSettings } from './settings.ts';
import { refusesToken } from './token-refusals.ts';
import { itemsAt } from './units.ts';

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
    close: closeHost,
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

/** Keyed by the egress guard, of which each catalog has one. It stays until `closeHost`. */
function hostOf(context: ConnectorContext): PackHost {
  const { egress, children } = context;
  const known = hosts.get(egress);
  if (known !== undefined) return known;
  const host = new PackHost({ ...children, secrets: environmentOf(context) });
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

/** How long a destination gets no batches after one whose mapping did not end, ms. */
const ALONE_MS = 60_000;

/** Jobs of a process that may carry whole batches; what more destinations send at a time must not add up to its memory. */
const MAX_WHOLE = 16;
/** Events of each further job. */
const MAX_FURTHER = 10;

type RunTask = Exclude<Job['task'], { readonly op: 'describe' | 'match' }>;

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

/** Gets each request of a trial, with the texts that are masked when it is shown. */
type Observer = (sent: HttpSent, secrets: readonly string[], answer?: HttpAnswer) => void;

export interface SegmentOptions {
  /** Rewrites the URL of a request. Default: the URL of the pack. */
  readonly rewriteUrl?: (url: string) => string;
}

/** One for all: its stack would cost as much as the rest of a job. */
const JOB_IS_OVER = new Stopped('the job is over');

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
  const observers = new WeakMap<ConnectorDestination, Observer>();
  /** Until when events of a destination are sent alone, epoch ms: the one that ended their batch is among them. */
  const aloneUntil = new Map<string, number>();

  /** Runs a task with the access token of its connection, where it has one; once more with another, where it is refused. */
  const run = async (
    task: RunTask,
    agent: Agent,
    secrets: readonly string[],
    call: ConnectorCall,
  ): Promise<PackRun> => {
    if (definition.authorization !== 'connection') return runOnce(task, agent, secrets, call);
    const access = await accessFor(call);
    if (access.kind !== 'token') return PackRun.failed(withoutAccess(access));
    const { token } = access;
    const first = await runOnce(withAccess(task, access), agent, [token, ...secrets], call);
    if (!first.isTokenRefused) return first;
    const renewed = await accessFor(call, token);
    if (renewed.kind !== 'token') return first.withRefused(() => withoutAccess(renewed));
    // It was renewed for a refusal a moment ago: the account may lack a right, or have taken back the access.
    if (renewed.token === token) return first.withRefused(tokenRefused);
    // Something may be stored: only what was refused is sent again, at the next attempt.
    if (!first.isRefusedWhole) return first.withRefused(() => TOKEN_RENEWED);
    const last = await runOnce(withAccess(task, renewed), agent, [renewed.token, ...secrets], call);
    return last.withRefused(tokenRefused);
  };

  /** Runs a job. What was told of it counts also where it did not end. */
  const runOnce = async (task: RunTask, agent: Agent, secrets: readonly string[], call: ConnectorCall) => {
    const { workspaceId } = call.destination;
    const events = 'events' in task ? task.events : [];
    const ran = new PackRun(events.length, secrets);
    const { deadline } = call;
    // Of the requests: aborted with the call, and when the job has ended or its process was lost while some are under way.
    const over = new Deadline(deadline.outer, deadline.dueAt, deadline.busyAt);
    const stop = () => over.abort(deadline.reason ?? JOB_IS_OVER);
    deadline.addEventListener('abort', stop);
    let requests = 0;
    const send = async ({ unit, events: carried, sent, isGrant }: UnitRequest) => {
      const about = ran.began(unit, { events: carried, sent, ...(isGrant && { isGrant }) });
      requests += 1;
      if (task.op === 'call' && requests > MAX_REQUESTS) {
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
        const keyed = withKeysInBody(
          sent,
          destination,
          itemsAt(events, carried).map(({ event }) => event),
        );
        const observe = observers.get(call.destination);
        const forwarded = forwardRequest(agent, { ...keyed, url: rewriteUrl(sent.url) }, over);
        if (observe !== undefined)
          forwarded.then(
            (answer) => observe(keyed, secrets, answer),
            () => observe(keyed, secrets),
          );
        const answer = await forwarded;
        about.answer = readAnswer(destination, answer, secrets);
        about.isTokenRefused =
          answer.status === 401 || refusesToken(destination, Buffer.from(answer.body, 'base64'));
        return answer;
      } catch (error) {
        about.failure = call.failed(error);
        throw error;
      }
    };
    const job = {
      task,
      send,
      begin: () => ran.begin(),
      // A call may have created something at the vendor.
      mayRepeat: () => task.op !== 'call' || requests === 0,
      progress: (progress: Progress) => ran.progress(progress),
    };
    try {
      await host.run(workspaceId, job, deadline);
    } catch (error) {
      ran.failure = call.failed(error);
    } finally {
      deadline.removeEventListener('abort', stop);
      stop();
    }
    return ran;
  };

  const connector = createClientConnector<SegmentSettings, Agent>(context, {
    readSettings,
    limits: ({ limits }) => limits,
    ...httpClient(context),

    async send(agent, settings, batch, call) {
      const secrets = secretsOf(settings);
      const common = { op: 'run', ...subscriptionsTask(definition, settings) } as const;
      const events = batch.map((delivery) => packEvent(definition, delivery, call.destination));
      const eventOf = new Map(batch.map((delivery, at) => [delivery, events[at]]));
      const ran = await run({ ...common, events }, agent, secrets, call);
      if (ran.hasNotBegun && batch.length > 1)
        aloneUntil.set(call.destination.id, context.clock() + ALONE_MS);
      const results = batch.map((): DeliveryResult[] => []);
      for (const [number, { subscription, events: numbers }] of ran.units.entries()) {
        const verdict = ran.verdictOf(number, context.clock());
        const told = new Map(numbers.map((at, place) => [at, verdict.each[place]]));
        const open = numbers.filter((at) => told.get(at) === undefined);
        const part = open.flatMap((at) => batch[at] ?? []);
        const narrowed = await narrow(part, verdict, call, async (some) => {
          const own = some.flatMap((delivery) => eventOf.get(delivery) ?? []);
          const again = await run({ ...common, events: own, only: subscription }, agent, secrets, call);
          return again.verdictOf(0, context.clock());
        });
        for (const [place, at] of open.entries()) told.set(at, narrowed[place]);
        for (const at of numbers) results[at]?.push(told.get(at) ?? LOST);
      }
      return results.map((own) => (own.length > 0 ? worstOf(own) : ran.ofNoUnit));
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      const task = { op: 'test', ...ofDestination(definition, settings) } as const;
      const ran = await run(task, agent, secrets, call);
      const { isEnded, status } = ran.test;
      // Some tests look at the settings alone, and a good answer is of no interest.
      if (isEnded) return { ok: true, ...(status === undefined ? {} : { status }) };
      return testResultOf(ran.verdictOf(0, context.clock()).result);
    },
  });

  const callVendor = async (
    target: ConnectorDestination,
    call: VendorCall,
    options: { readonly signal: AbortSignal },
  ): Promise<Called> => {
    const ended = await connector.once(target, options, async (agent, settings, made) => {
      const secrets = secretsOf(settings);
      const task = { op: 'call', call, ...ofDestination(definition, settings) } as const;
      return (await run(task, agent, secrets, made)).called(context.clock());
    });
    return 'done' in ended ? ended.done : { result: ended.failed, output: null };
  };
  const { deletes, hasAudiences } = definition;

  let left: Promise<void> | undefined;
  return {
    ...connector,
    batchLimits(target) {
      if ((aloneUntil.get(target.id) ?? 0) > context.clock()) return { events: 1 };
      aloneUntil.delete(target.id);
      const limits = connector.batchLimits(target);
      const isFull = host.jobsOf(target.workspaceId) >= MAX_WHOLE;
      return isFull ? { ...limits, events: Math.min(limits.events, MAX_FURTHER) } : limits;
    },
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
      const stored = { ...settings, own: { ...settings.own, ...target.connected } };
      const previewed = packEvent(definition, { event, message_id, index: 0 }, target);
      const common = subscriptionsTask(definition, stored);
      const task = { op: 'preview', ...common, events: [previewed] } as const;
      const { previews } = await host.run(target.workspaceId, { task, send: refuseToSend }, signal);
      return previews.map((preview) =>
        shownPreview(definition, preview, { settings: common.settings, event: previewed.event }, secrets),
      );
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
      const requests: AnsweredRequest[] = [];
      const own = { ...target };
      observers.set(own, (sent, secrets, answer) => requests.push(shownRequest(sent, answer, secrets)));
      const [result = STOPPED] = await connector.deliver(own, [trialDelivery(own, event)], { signal });
      return { result, requests };
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

const TOKEN_RENEWED: DeliveryResult = { outcome: 'retry', reason: 'the access token was renewed' };

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

function subscriptionsTask(definition: Definition, settings: SegmentSettings) {
  const { presets, subscriptions } = settings;
  return {
    ...ofDestination(definition, settings),
    presets: presets.filter((preset) => definition.presets.some((one) => one.name === preset)),
    subscriptions,
  };
}

function packEvent(
  { type, integrations: names }: Definition,
  delivery: EventOfDelivery,
  { id, name = '' }: ConnectorDestination,
): SubjectEvent {
  const event: JsonObject = { ...segmentEvent(delivery.event), messageId: messageIdOf(delivery) };
  const integrations = objectIn(event.integrations);
  const options = integrationFor(integrations, { id, name, type });
  return {
    subject: subjectOf(delivery.event),
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

/** The results of the deliveries of a call that were not told apart: narrowed down where it was refused as a whole. */
async function narrow(
  deliveries: readonly Delivery[],
  { result, mayBeSplit }: UnitVerdict,
  { hasTimeToHalve }: ConnectorCall,
  sendAgain: (part: Part) => Promise<UnitVerdict>,
): Promise<readonly DeliveryResult[]> {
  const [first, ...rest] = deliveries;
  if (first === undefined || rest.length === 0 || !mayBeSplit) return deliveries.map(() => result);
  const whole: Part = [first, ...rest];
  return sendInParts(whole, {
    hasTimeToHalve,
    async send(part) {
      if (part === whole) return { result, mayBeSplit };
      const verdict = await sendAgain(part);
      const isTold = verdict.each.some((one) => one !== undefined);
      return isTold
        ? { ...verdict, each: part.map((_, at) => verdict.each[at] ?? verdict.result) }
        : { result: verdict.result, mayBeSplit: verdict.mayBeSplit };
    },
  });
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
    requests: requests.map((sent) => maskedRequest(withKeysInBody(sent, destination, [event]), secrets)),
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

/**
 * The request with the ids of the events that it carries as the vendor's keys of deduplication in its body, where the pack has
 * no field for that.
 */
function withKeysInBody(sent: HttpSent, destination: string, events: readonly JsonObject[]): HttpSent {
  const member = DEDUPLICATION[destination]?.member;
  const [first] = events;
  if (member === undefined || first === undefined || sent.body === '') return sent;
  const body = JSON.parse(Buffer.from(sent.body, 'base64').toString('utf8')) as Json;
  const { batch } = objectIn(body);
  // One event may make several in the body; those of several events stand in their order.
  if (events.length > 1 && (!Array.isArray(batch) || batch.length !== events.length)) return sent;
  const keyOf = (at: number) => {
    const [event, part] = events.length > 1 ? [events[at], 0] : [first, at];
    const messageId = String(event?.messageId);
    if (member !== 'uuid') return part === 0 ? messageId : `${messageId}:${part}`;
    return part === 0 && isUuid(messageId)
      ? messageId.toLowerCase()
      : nameId('message', messageId, String(part));
  };
  const keyed = (event: Json, at: number) => (isObject(event) ? { [member]: keyOf(at), ...event } : event);
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
 * `context.segment`, and without its notes. Numbers become doubles on their way to the process of the pack, as actions compute
 * with them. An identify has its traits in `context.traits` too, where presets read them.
 */
export function segmentEvent(event: CanonicalEvent): JsonObject {
  const entries = Object.entries(event).flatMap(([name, value]) =>
    OURS.has(name) || value === undefined ? [] : [[NAMES[name] ?? name, value] as const],
  );
  const { segment, tributary, ...context } = event.context ?? {};
  const { context: moved, batch: _, timestamp: sentTime, type: sentType, ...fields } = objectIn(segment);
  return {
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
  };
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
  agent: Agent,
  { method, url, headers, body }: HttpSent,
  signal: AbortLike,
): Promise<HttpAnswer> {
  const request = {
    method: method as Dispatcher.HttpMethod,
    url: new URL(url),
    headers: headers.filter(([name]) => !TRANSPORT.has(name)).flat(),
    ...(body !== '' && { body: Buffer.from(body, 'base64') }),
  };
  const answer = await sendRequest(agent, request, signal, MAX_RESPONSE_BYTES);
  // A body that was cut off is no answer for the pack, which would take it for whole.
  if (!answer.whole && signal.aborted) throw signal.reason;
  const pairs = Object.entries(answer.headers).flatMap(([name, value]) =>
    value === undefined || TRANSPORT.has(name) ? [] : [[name, String(value)] as const],
  );
  return { status: answer.status, headers: pairs, body: Buffer.from(answer.start).toString('base64') };
}
