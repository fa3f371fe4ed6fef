import { AsyncLocalStorage } from 'node:async_hooks';
import dgram from 'node:dgram';
import { writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Json, JsonObject } from '@tributary/core';
import { withKey } from './deduplication.ts';
import { detailsIn } from './details.ts';
import type {
  ActionOutcome,
  FromPack,
  HttpAnswer,
  HttpSent,
  Progress,
  RecordedPreview,
  Subscription,
  ToPack,
} from './messages.ts';
import {
  type BatchCall,
  conditionOf,
  loadDefinition,
  type PackDefinition,
  type PackDestination,
  type PackStatus,
  replaceFetch,
  type Started,
  StartedDestinations,
  startDestination,
  transformed,
} from './pack.ts';
import { refusesToken } from './token-refusals.ts';
import { itemsAt, type Place, stepsOf } from './units.ts';
import { callVendor, runBatch } from './vendor-calls.ts';

/**
 * The process of the pack. It has no environment, no network, and no permission to write files or start processes. It runs
 * the jobs of its parent and ends with it.
 */

/** Characters of an error message that are kept. */
const MAX_MESSAGE = 500;

/** Statuses of responses without a body. */
const BODILESS = new Set([101, 204, 205, 304]);

/** Requests of one subscription that a preview shows. */
const MAX_PREVIEWED = 20;

const NO_BODY = new Uint8Array();

/** Calls of actions that run at once, of one job. */
const MAX_AT_ONCE = 10;

/** The call of an action. */
interface CurrentCall {
  readonly job: number;
  readonly unit: number;
  /** Numbers of the events that it carries. */
  events: readonly number[];
  readonly batch: BatchCall;
  requests: number;
  lastBody: Uint8Array<ArrayBuffer>;
}

/** Bytes of the requests of one preview, with all its subscriptions. */
const MAX_PREVIEWED_BYTES = 2 * 1_024 * 1_024;

interface Recording {
  readonly requests: HttpSent[];
  /** Of the whole preview. */
  readonly room: { bytes: number };
  payload: Json | undefined;
}

/** The `fetch` of this process: requests are sent by the parent process. */
class ForwardedFetch {
  readonly #post: (message: FromPack) => void;
  readonly #call = new AsyncLocalStorage<CurrentCall>();
  readonly #preview = new AsyncLocalStorage<Recording>();
  readonly #grant = new AsyncLocalStorage<true>();
  readonly #waiting = new Map<number, PromiseWithResolvers<HttpAnswer>>();
  #requests = 0;

  constructor(post: (message: FromPack) => void) {
    this.#post = post;
  }

  /** Requests of `work` belong to the unit of the job. */
  runAs<T>(
    { job, unit, events }: Pick<CurrentCall, 'job' | 'unit' | 'events'>,
    work: (call: CurrentCall) => Promise<T>,
  ): Promise<T> {
    const batch: BatchCall = { performed: 'not' };
    const call: CurrentCall = { job, unit, events, batch, requests: 0, lastBody: NO_BODY };
    return this.#call.run(call, () => work(call));
  }

  /** Requests of `work` ask for an access token. */
  runGrant<T>(work: () => Promise<T>): Promise<T> {
    return this.#grant.run(true, work);
  }

  /** Requests of `work` are recorded in place of being sent. */
  runRecorded<T>(recording: Recording, work: () => Promise<T>): Promise<T> {
    return this.#preview.run(recording, work);
  }

  /** Runs `work` without sending its requests. */
  readonly tried = <T>(work: () => Promise<T>): Promise<T> => {
    const room = { bytes: Number.POSITIVE_INFINITY };
    return this.runRecorded({ requests: [], room, payload: undefined }, work);
  };

  /** Keeps the values that an action got, in a preview. */
  readonly record = (payload: Json): void => {
    const recording = this.#preview.getStore();
    if (recording !== undefined) recording.payload = structuredClone(payload);
  };

  /** The batch of the current call. */
  readonly batch = (): BatchCall | undefined => this.#call.getStore()?.batch;

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const current = this.#call.getStore();
    const recording = this.#preview.getStore();
    if (current === undefined) throw new TypeError('a request outside of a job');
    const { job, unit, events } = current;
    const asked = input instanceof Request && init === undefined ? input : new Request(input, init);
    const body = Buffer.from(await asked.arrayBuffer()).toString('base64');
    const sent = { method: asked.method, url: asked.url, headers: [...asked.headers], body };
    if (recording !== undefined) {
      recording.room.bytes -= body.length;
      if (recording.requests.length >= MAX_PREVIEWED || recording.room.bytes < 0)
        throw new TypeError('more requests than a preview shows');
      recording.requests.push(sent);
      return new Response('{}', { headers: { 'content-type': 'application/json' } });
    }
    const request = ++this.#requests;
    const answered = Promise.withResolvers<HttpAnswer>();
    this.#waiting.set(request, answered);
    current.requests += 1;
    const isGrant = this.#grant.getStore();
    this.#post({ op: 'request', job, request, unit, events, sent, ...(isGrant && { isGrant }) });
    const answer = await answered.promise;
    current.lastBody = Buffer.from(answer.body, 'base64');
    const content = BODILESS.has(answer.status) ? null : current.lastBody.slice();
    return new Response(content, { status: answer.status, headers: answer.headers.map(([...pair]) => pair) });
  };

  settle(message: Extract<ToPack, { op: 'answer' | 'unanswered' }>): void {
    const answered = this.#waiting.get(message.request);
    this.#waiting.delete(message.request);
    if (message.op === 'answer') answered?.resolve(message.answer);
    else answered?.reject(new TypeError('fetch failed'));
  }
}

const post = (message: FromPack) => void process.send?.(message);
const forwarded = new ForwardedFetch(post);
replaceFetch(forwarded.fetch);
// Code of the pack that bypasses `fetch` reaches nothing. Node's permission model covers neither sockets nor signals.
const refuse = (): never => {
  throw new Error('no network and no signals in this process');
};
Socket.prototype.connect = refuse;
for (const method of ['bind', 'connect', 'send'] as const) dgram.Socket.prototype[method] = refuse;
process.kill = refuse;

/** When the machine runs out of memory, this process is killed first. */
try {
  writeFileSync('/proc/self/oom_score_adj', '1000');
} catch {
  // Not Linux, or not permitted: the parent still watches the memory.
}

const destinations = new StartedDestinations((name) => {
  const definition = loadDefinition(name);
  const hooks = { onPayload: forwarded.record, batchCall: forwarded.batch, tried: forwarded.tried };
  return { definition, running: startDestination(name, definition, hooks) };
});

type ForSubscriptions = Extract<ToPack, { op: 'run' | 'preview' }>;

/** The presets to run, then the subscriptions of the settings; each with the vendor's key of deduplication. */
function subscriptionsOf({ definition }: Started, message: ForSubscriptions): readonly Subscription[] {
  const presets = presetsOf(definition).filter(({ name }) => message.presets.includes(name));
  return [...presets, ...message.subscriptions].map((subscription) =>
    withKey(subscription, definition.actions[subscription.partnerAction]?.fields, message.destination),
  );
}

async function run(
  started: Started,
  message: Extract<ToPack, { op: 'run' }>,
  onProgress: (progress: Progress) => void,
): Promise<Progress> {
  const { job, events, only } = message;
  const subscriptions = subscriptionsOf(started, message);
  const placing = subscriptions.map((subscription, at) =>
    only === undefined || at === only ? placesOf(started, subscription, at) : () => undefined,
  );
  const steps = stepsOf(
    events.map(({ subject, event }, number) => ({
      subject,
      places: placing.flatMap((placeOf) => placeOf(event, number) ?? []),
    })),
  );
  const units = steps.flat();
  if (events.length > 1) onProgress({ units, outcomes: [] });
  const access = accessOf(started, message);
  let begun = 0;
  let outcomes: readonly ActionOutcome[] = [];
  for (const step of steps) {
    if (begun > 0) onProgress({ outcomes });
    const calls = step.map((unit) => ({ unit, number: begun++ }));
    outcomes = await mapAtOnce(calls, ({ unit, number }) => {
      const subscription = subscriptions[unit.subscription];
      const own = itemsAt(events, unit.events).map(({ event }) => event);
      const call = { job, unit: number, events: unit.events };
      if (subscription === undefined) return { unit: number };
      return forwarded.runAs(call, (current) => runUnit(subscription, own, access, current));
    });
  }
  return { units, outcomes };
}

/** Finds the place of an event in the calls of a subscription; none where it does not meet the trigger. */
function placesOf(
  { definition }: Started,
  { subscribe, partnerAction: action, mapping, batch }: Subscription,
  subscription: number,
): (event: JsonObject, number: number) => Place | undefined {
  if (definition.actions[action] === undefined) return () => undefined;
  const isMet = conditionOf(subscribe);
  const keys = Object.fromEntries(
    (batch?.keys ?? []).flatMap((key): [string, Json][] => {
      const value = mapping[key];
      return value === undefined ? [] : [[key, value]];
    }),
  );
  return (event, number) =>
    isMet(event)
      ? { subscription, action, group: batch === undefined ? String(number) : groupOf(keys, event) }
      : undefined;
}

/** A batch is of one audience: actions read that of its first event. */
function groupOf(keys: JsonObject, event: JsonObject): string {
  const { context } = event;
  const personas =
    typeof context === 'object' && context !== null && 'personas' in context ? context.personas : null;
  try {
    return JSON.stringify([personas, transformed(keys, event)]);
  } catch {
    // Its call will fail in the same way.
    return 'keys that cannot be mapped';
  }
}

/** The results in order, of some calls at a time. */
async function mapAtOnce<T, R>(
  items: readonly T[],
  work: (item: T) => R | Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = [];
  const rest = items.entries();
  const take = async () => {
    for (const [at, item] of rest) results[at] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_AT_ONCE, items.length) }, take));
  return results;
}

async function runUnit(
  subscription: Subscription,
  events: readonly JsonObject[],
  access: Access,
  call: CurrentCall,
): Promise<ActionOutcome> {
  const { unit, events: numbers } = call;
  if (subscription.batch === undefined) {
    const { error } = await callAction(subscription, events[0] ?? {}, access, call);
    return error === undefined ? { unit } : { unit, error };
  }
  const attempt = async (places: readonly number[]) => {
    call.events = itemsAt(numbers, places);
    const sent = itemsAt(events, places);
    const called = await callAction(subscription, sent, access, call);
    const { performed } = call.batch;
    return { ...called, performed, isTokenRefused: access.isRefusedBy(call.lastBody) };
  };
  return { unit, ...(await runBatch(events.length, attempt, access.renews)) };
}

async function preview(
  started: Started,
  message: Extract<ToPack, { op: 'preview' }>,
): Promise<readonly RecordedPreview[]> {
  const previews: RecordedPreview[] = [];
  const room = { bytes: MAX_PREVIEWED_BYTES };
  const access = { ...accessOf(started, message), token: async () => PREVIEWED_TOKEN };
  const [{ event } = { event: {} }] = message.events;
  for (const [unit, subscription] of subscriptionsOf(started, message).entries()) {
    const recording: Recording = { requests: [], room, payload: undefined };
    const matches = placesOf(started, subscription, unit)(event, 0) !== undefined;
    const call = { job: message.job, unit, events: [0] };
    const outcome = matches
      ? await forwarded.runRecorded(recording, () =>
          forwarded.runAs(call, (current) => runUnit(subscription, [event], access, current)),
        )
      : undefined;
    previews.push({
      subscription: subscription.name,
      action: subscription.partnerAction,
      matches,
      payload: matches ? shownPayload(room, recording.payload ?? unchecked(subscription, event)) : null,
      requests: recording.requests,
      error: errorIn(outcome),
    });
  }
  return previews;
}

function errorIn(outcome: ActionOutcome | undefined): string | null {
  const [said] = outcome?.each ?? [];
  if (outcome?.error !== undefined) return `${outcome.error.message} (${outcome.error.name})`;
  return said != null && (said.status === undefined || said.status >= 300) ? said.message : null;
}

/** Null for one that there is no room for in the preview. */
function shownPayload(room: { bytes: number }, payload: Json): Json {
  room.bytes -= JSON.stringify(payload).length;
  return room.bytes < 0 ? null : payload;
}

/** The values of a mapping that the action's schema refused. */
function unchecked({ mapping }: Subscription, event: JsonObject): Json {
  try {
    return transformed(mapping, event);
  } catch {
    return null;
  }
}

const PREVIEWED_TOKEN = 'token';

/** A destination with its settings, and the token for its requests; empty where it needs none. */
interface Access {
  readonly running: PackDestination;
  readonly settings: JsonObject;
  token(): Promise<string>;
  /** Whether the body of a 2xx refuses the token. */
  isRefusedBy(body: Uint8Array): boolean;
  /**
   * Whether another token may help where this one was refused: the next call of `token` gets one. One that another job
   * got meanwhile stays, as a grant may end the tokens before it.
   */
  renews(refused: Promise<string>): boolean;
}

/** Tokens by destination and settings, the oldest first. Their grants are repeated after a restart of the process. */
const tokens = new Map<string, Promise<string>>();
const MAX_TOKENS = 1_000;

function accessOf(
  { running }: Started,
  {
    destination,
    authorization,
    settings: stated,
  }: Pick<ForSubscriptions, 'destination' | 'authorization' | 'settings'>,
): Access {
  const { accessToken, ...others } = stated;
  const common = {
    running,
    renews: () => false,
    isRefusedBy: (body: Uint8Array) => refusesToken(destination, body),
  };
  if (authorization === 'token')
    return { ...common, settings: others, token: async () => String(accessToken) };
  if (authorization === undefined) return { ...common, settings: stated, token: async () => '' };
  const key = JSON.stringify([destination, stated]);
  return {
    ...common,
    settings: stated,
    token() {
      const token = tokens.get(key) ?? granted(running, stated);
      tokens.set(key, token);
      token.catch(() => {
        if (tokens.get(key) === token) tokens.delete(key);
      });
      const [oldest] = tokens.keys();
      if (tokens.size > MAX_TOKENS && oldest !== undefined) tokens.delete(oldest);
      return token;
    },
    renews(refused) {
      if (tokens.get(key) === refused) tokens.delete(key);
      return true;
    },
  };
}

/** The token; a grant that another call asked for and that failed is no failure of this one, which tries again later. */
async function ownOr(token: Promise<string>, call: CurrentCall, before: number): Promise<string> {
  try {
    return await token;
  } catch (error) {
    if (call.requests > before) throw error;
    throw Object.assign(new Error('no access token was granted'), { name: 'RetryableError' });
  }
}

async function granted(running: PackDestination, settings: JsonObject): Promise<string> {
  const grant = await forwarded.runGrant(() => running.refreshAccessToken(settings, NO_TOKEN));
  if (typeof grant?.accessToken !== 'string') throw new TypeError('the vendor granted no access token');
  return grant.accessToken;
}

const NO_TOKEN = { accessToken: '', refreshToken: '', clientId: '', clientSecret: '' };

interface Called {
  /** Of the last attempt. */
  readonly token?: Promise<string>;
  readonly error?: ActionOutcome['error'];
  /** For each event of a batch. */
  readonly multistatus: readonly PackStatus[];
}

async function callAction(
  subscription: Subscription,
  data: JsonObject | readonly JsonObject[],
  access: Access,
  call: CurrentCall,
): Promise<Called> {
  const { value = [], ...ended } = await withToken(access, call, async (accessToken) => {
    call.batch.performed = 'not';
    const auth = { accessToken, refreshToken: '' };
    const [result] = await access.running.onSubscription(subscription, data, access.settings, auth);
    return result?.multistatus ?? [];
  });
  return { ...ended, multistatus: value };
}

/** Runs `work` with the token, and once more with another one where its first request was refused for the token. */
async function withToken<T>(
  access: Access,
  call: CurrentCall,
  work: (accessToken: string) => Promise<T>,
): Promise<Pick<Called, 'token' | 'error'> & { readonly value?: T }> {
  const before = call.requests;
  const attempt = async () => {
    const token = access.token();
    const accessToken = await ownOr(token, call, before);
    const begun = call.requests;
    try {
      return { token, value: await work(accessToken), isRefused: false };
    } catch (thrown) {
      const error = errorOf(thrown);
      // Nothing was done yet where the first request was refused for its token.
      const isRefused =
        call.requests - begun === 1 && (error.status === 401 || access.isRefusedBy(call.lastBody));
      return { token, error, isRefused };
    }
  };
  try {
    const { isRefused, ...ended } = await attempt();
    if (!isRefused || !access.renews(ended.token)) return ended;
    const { isRefused: _, ...again } = await attempt();
    return again;
  } catch (thrown) {
    return { error: errorOf(thrown) };
  }
}

/** A call beside deliveries. */
async function callBeside(started: Started, message: Extract<ToPack, { op: 'call' }>): Promise<Progress> {
  const { job, call } = message;
  const access = accessOf(started, message);
  const units = [{ subscription: 0, action: call.kind, events: [] }];
  const { value, error } = await forwarded.runAs({ job, unit: 0, events: [] }, (current) =>
    withToken(access, current, (token) => callVendor(started, call, access.settings, token)),
  );
  if (error !== undefined) return { units, outcomes: [{ unit: 0, error }] };
  return { units, outcomes: [{ unit: 0, output: value ?? null }] };
}

function presetsOf({ presets = [] }: PackDefinition): readonly Subscription[] {
  return presets.flatMap(({ name, type, subscribe, partnerAction, mapping = {} }) =>
    type === 'automatic' && subscribe !== undefined ? [{ name, subscribe, partnerAction, mapping }] : [],
  );
}

async function test(started: Started, message: Extract<ToPack, { op: 'test' }>): Promise<Progress> {
  const units = [{ subscription: 0, action: 'test', events: [] }];
  const { running, settings, token } = accessOf(started, message);
  const call = { job: message.job, unit: 0, events: [] };
  return forwarded.runAs(call, async () => {
    try {
      const oauth = { access_token: await token() };
      await running.testAuthentication(
        message.authorization === undefined ? settings : { ...settings, oauth },
      );
      return { units, outcomes: [{ unit: 0 }] };
    } catch (error) {
      return { units, outcomes: [{ unit: 0, error: errorOf(error) }] };
    }
  });
}

function errorOf(thrown: unknown): NonNullable<ActionOutcome['error']> {
  if (!(thrown instanceof Error)) return { name: 'Error', message: '' };
  const status =
    numberIn(thrown, 'status') ?? ('response' in thrown ? numberIn(thrown.response, 'status') : undefined);
  const about = { name: thrown.name, message: thrown.message.slice(0, MAX_MESSAGE) };
  return status === undefined ? about : { ...about, status };
}

function numberIn(value: unknown, name: 'status'): number | undefined {
  if (typeof value !== 'object' || value === null || !(name in value)) return undefined;
  return typeof value[name] === 'number' ? value[name] : undefined;
}

function progressOf(
  started: Started,
  message: Extract<ToPack, { op: 'run' | 'test' | 'call' }>,
): Promise<Progress> {
  const { job } = message;
  switch (message.op) {
    case 'run':
      return run(started, message, (part) => post({ op: 'progress', job, ...part }));
    case 'test':
      return test(started, message);
    case 'call':
      return callBeside(started, message);
  }
}

async function work(message: Extract<ToPack, { op: 'run' | 'preview' | 'test' | 'call' }>): Promise<void> {
  const { job } = message;
  const finished = await destinations.use(message.destination, async (started) => {
    if (message.op === 'preview') return { outcomes: [], previews: await preview(started, message) };
    return { ...(await progressOf(started, message)), previews: [] };
  });
  post({ op: 'done', job, ...finished });
}

process.on('message', (message: ToPack) => {
  if (message.op === 'answer' || message.op === 'unanswered') forwarded.settle(message);
  else if (message.op === 'describe') {
    const details = detailsIn(loadDefinition(message.destination));
    post({ op: 'done', job: message.job, outcomes: [], previews: [], details });
  } else if (message.op === 'match') {
    const { triggers, events } = message;
    const matches = triggers.map((trigger) => events.filter(conditionOf(trigger)).length);
    post({ op: 'done', job: message.job, outcomes: [], previews: [], matches });
  } else void work(message);
});
process.on('disconnect', () => process.exit());
post({ op: 'ready' });
