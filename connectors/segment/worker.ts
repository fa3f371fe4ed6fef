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
  RecordedPreview,
  Subscription,
  ToPack,
} from './messages.ts';
import {
  loadDefinition,
  matchesOf,
  type PackDefinition,
  type PackDestination,
  replaceFetch,
  type Started,
  StartedDestinations,
  startDestination,
  transformed,
} from './pack.ts';
import { refusesToken } from './token-refusals.ts';
import { callVendor } from './vendor-calls.ts';

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

interface CurrentJob {
  readonly job: number;
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
  readonly #job = new AsyncLocalStorage<CurrentJob>();
  readonly #preview = new AsyncLocalStorage<Recording>();
  readonly #waiting = new Map<number, PromiseWithResolvers<HttpAnswer>>();
  #requests = 0;

  constructor(post: (message: FromPack) => void) {
    this.#post = post;
  }

  /** Requests of `work` belong to the job. */
  runAs<T>(job: number, work: () => Promise<T>): Promise<T> {
    return this.#job.run({ job, requests: 0, lastBody: NO_BODY }, work);
  }

  /** Requests of `work` are recorded in place of being sent. */
  runRecorded<T>(recording: Recording, work: () => Promise<T>): Promise<T> {
    return this.#preview.run(recording, work);
  }

  /** Keeps the values that an action got, in a preview. */
  readonly record = (payload: Json): void => {
    const recording = this.#preview.getStore();
    if (recording !== undefined) recording.payload = structuredClone(payload);
  };

  /** Requests of the current job so far. */
  get requests(): number {
    return this.#job.getStore()?.requests ?? 0;
  }

  /** The body of the last answer of the current job. */
  get lastBody(): Uint8Array {
    return this.#job.getStore()?.lastBody ?? NO_BODY;
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const current = this.#job.getStore();
    const recording = this.#preview.getStore();
    if (current === undefined) throw new TypeError('a request outside of a job');
    const { job } = current;
    const asked = new Request(input, init);
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
    this.#post({ op: 'request', job, request, sent });
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
  return { definition, running: startDestination(name, definition, forwarded.record) };
});

type ForSubscriptions = Extract<ToPack, { op: 'run' | 'preview' }>;

/** The presets to run, then the subscriptions of the settings; each with the vendor's key of deduplication. */
function subscriptionsOf({ definition }: Started, message: ForSubscriptions): readonly Subscription[] {
  const presets = presetsOf(definition).filter(({ name }) => message.presets.includes(name));
  return [...presets, ...message.subscriptions].map((subscription) =>
    withKey(subscription, definition.actions[subscription.partnerAction]?.fields, message.destination),
  );
}

async function run(started: Started, message: ForSubscriptions): Promise<readonly ActionOutcome[]> {
  const outcomes: ActionOutcome[] = [];
  for (const subscription of subscriptionsOf(started, message)) {
    const outcome = await runAction(subscription, message.event, accessOf(started, message));
    if (outcome !== undefined) outcomes.push(outcome);
  }
  return outcomes;
}

async function preview(started: Started, message: ForSubscriptions): Promise<readonly RecordedPreview[]> {
  const previews: RecordedPreview[] = [];
  const room = { bytes: MAX_PREVIEWED_BYTES };
  for (const subscription of subscriptionsOf(started, message)) {
    const recording: Recording = { requests: [], room, payload: undefined };
    const outcome = await forwarded.runRecorded(recording, () =>
      runAction(subscription, message.event, {
        ...accessOf(started, message),
        token: async () => PREVIEWED_TOKEN,
      }),
    );
    previews.push({
      subscription: subscription.name,
      action: subscription.partnerAction,
      matches: outcome !== undefined,
      payload:
        outcome === undefined
          ? null
          : shownPayload(room, recording.payload ?? unchecked(subscription, message.event)),
      requests: recording.requests,
      error: outcome?.error === undefined ? null : `${outcome.error.message} (${outcome.error.name})`,
    });
  }
  return previews;
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

/** The token; a grant that another job asked for and that failed is no failure of this one, which tries again later. */
async function ownOr(token: Promise<string>, before: number): Promise<string> {
  try {
    return await token;
  } catch (error) {
    if (forwarded.requests > before) throw error;
    throw Object.assign(new Error('no access token was granted'), { name: 'RetryableError' });
  }
}

async function granted(running: PackDestination, settings: JsonObject): Promise<string> {
  const grant = await running.refreshAccessToken(settings, NO_TOKEN);
  if (typeof grant?.accessToken !== 'string') throw new TypeError('the vendor granted no access token');
  return grant.accessToken;
}

const NO_TOKEN = { accessToken: '', refreshToken: '', clientId: '', clientSecret: '' };

/** Undefined where the event does not match the action's condition, or there is no such action. */
async function runAction(
  subscription: Subscription,
  event: JsonObject,
  access: Access,
): Promise<ActionOutcome | undefined> {
  const action = subscription.partnerAction;
  const before = forwarded.requests;
  const outcome = () => ({ action, requests: forwarded.requests - before });
  try {
    const [result] = await withToken(access, (accessToken) =>
      access.running.onSubscription(subscription, event, access.settings, { accessToken, refreshToken: '' }),
    );
    return isNotRun(result?.output) ? undefined : outcome();
  } catch (error) {
    return { ...outcome(), error: errorOf(error) };
  }
}

/** Runs `work` with the token, and once more with another one where its first request was refused for the token. */
async function withToken<T>(access: Access, work: (token: string) => Promise<T>): Promise<T> {
  for (let isRenewed = false; ; isRenewed = true) {
    const token = access.token();
    const accessToken = await ownOr(token, forwarded.requests);
    const begun = forwarded.requests;
    try {
      return await work(accessToken);
    } catch (error) {
      // Nothing was done yet where the first request was refused.
      const isFirst = forwarded.requests - begun === 1;
      const isRefused = errorOf(error).status === 401 || access.isRefusedBy(forwarded.lastBody);
      if (isRenewed || !isFirst || !isRefused || !access.renews(token)) throw error;
    }
  }
}

async function call(
  started: Started,
  message: Extract<ToPack, { op: 'call' }>,
): Promise<readonly ActionOutcome[]> {
  const about = () => ({ action: message.call.kind, requests: forwarded.requests });
  const access = accessOf(started, message);
  try {
    const output = await withToken(access, (token) =>
      callVendor(started, message.call, access.settings, token),
    );
    return [{ ...about(), output }];
  } catch (error) {
    return [{ ...about(), error: errorOf(error) }];
  }
}

/** The pack reports a condition that it cannot parse, and an action that it does not have, as a result. */
function isNotRun(output: unknown): boolean {
  if (typeof output !== 'string') return output === undefined;
  return output === 'not subscribed' || /^(?:Invalid|Failed to validate) subscription/.test(output);
}

function presetsOf({ presets = [] }: PackDefinition): readonly Subscription[] {
  return presets.flatMap(({ name, type, subscribe, partnerAction, mapping = {} }) =>
    type === 'automatic' && subscribe !== undefined ? [{ name, subscribe, partnerAction, mapping }] : [],
  );
}

async function test(
  started: Started,
  message: Extract<ToPack, { op: 'test' }>,
): Promise<readonly ActionOutcome[]> {
  const action = 'test';
  const { running, settings, token } = accessOf(started, message);
  try {
    const oauth = { access_token: await token() };
    await running.testAuthentication(message.authorization === undefined ? settings : { ...settings, oauth });
    return [{ action, requests: forwarded.requests }];
  } catch (error) {
    return [{ action, requests: forwarded.requests, error: errorOf(error) }];
  }
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

async function work(message: Extract<ToPack, { op: 'run' | 'preview' | 'test' | 'call' }>): Promise<void> {
  const { job } = message;
  const finished = await forwarded.runAs(job, () =>
    destinations.use(message.destination, async (started) => {
      if (message.op === 'preview') return { outcomes: [], previews: await preview(started, message) };
      if (message.op === 'call') return { outcomes: await call(started, message), previews: [] };
      const outcomes = await (message.op === 'run' ? run(started, message) : test(started, message));
      return { outcomes, previews: [] };
    }),
  );
  post({ op: 'done', job, ...finished });
}

process.on('message', (message: ToPack) => {
  if (message.op === 'answer' || message.op === 'unanswered') forwarded.settle(message);
  else if (message.op === 'describe') {
    const details = detailsIn(loadDefinition(message.destination));
    post({ op: 'done', job: message.job, outcomes: [], previews: [], details });
  } else if (message.op === 'match') {
    const matches = matchesOf(message.triggers, message.events);
    post({ op: 'done', job: message.job, outcomes: [], previews: [], matches });
  } else void work(message);
});
process.on('disconnect', () => process.exit());
post({ op: 'ready' });
