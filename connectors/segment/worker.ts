import { AsyncLocalStorage } from 'node:async_hooks';
import dgram from 'node:dgram';
import { writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import type { JsonObject } from '@tributary/core';
import { withKey } from './deduplication.ts';
import type { ActionOutcome, FromPack, HttpAnswer, Subscription, ToPack } from './messages.ts';
import {
  loadDefinition,
  type PackDefinition,
  type PackDestination,
  replaceFetch,
  type Started,
  StartedDestinations,
  startDestination,
} from './pack.ts';

/**
 * The process of the pack. It has no environment, no network, and no permission to write files or start processes. It runs
 * the jobs of its parent and ends with it.
 */

/** Characters of an error message that are kept. */
const MAX_MESSAGE = 500;
const NO_AUTH = { accessToken: '', refreshToken: '' };

/** Statuses of responses without a body. */
const BODILESS = new Set([101, 204, 205, 304]);

/** The `fetch` of this process: requests are sent by the parent process. */
class ForwardedFetch {
  readonly #post: (message: FromPack) => void;
  readonly #job = new AsyncLocalStorage<{ readonly job: number; requests: number }>();
  readonly #waiting = new Map<number, PromiseWithResolvers<HttpAnswer>>();
  #requests = 0;

  constructor(post: (message: FromPack) => void) {
    this.#post = post;
  }

  /** Requests of `work` belong to the job. */
  runAs<T>(job: number, work: () => Promise<T>): Promise<T> {
    return this.#job.run({ job, requests: 0 }, work);
  }

  /** Requests of the current job so far. */
  get requests(): number {
    return this.#job.getStore()?.requests ?? 0;
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const current = this.#job.getStore();
    if (current === undefined) throw new TypeError('a request outside of a job');
    const { job } = current;
    const asked = new Request(input, init);
    const body = Buffer.from(await asked.arrayBuffer()).toString('base64');
    const request = ++this.#requests;
    const answered = Promise.withResolvers<HttpAnswer>();
    this.#waiting.set(request, answered);
    const sent = { method: asked.method, url: asked.url, headers: [...asked.headers], body };
    current.requests += 1;
    this.#post({ op: 'request', job, request, sent });
    const answer = await answered.promise;
    const content = BODILESS.has(answer.status) ? null : Buffer.from(answer.body, 'base64');
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
  return { definition, running: startDestination(definition) };
});

async function run(
  { definition, running }: Started,
  message: Extract<ToPack, { op: 'run' }>,
): Promise<readonly ActionOutcome[]> {
  const outcomes: ActionOutcome[] = [];
  const presets = presetsOf(definition).filter(({ name }) => message.presets.includes(name));
  for (const subscription of [...presets, ...message.subscriptions]) {
    const fields = definition.actions[subscription.partnerAction]?.fields;
    const keyed = withKey(subscription, fields, message.destination);
    const outcome = await runAction(running, keyed, message.event, message.settings);
    if (outcome !== undefined) outcomes.push(outcome);
  }
  return outcomes;
}

/** Undefined where the event does not match the action's condition, or there is no such action. */
async function runAction(
  running: PackDestination,
  subscription: Subscription,
  event: JsonObject,
  settings: JsonObject,
): Promise<ActionOutcome | undefined> {
  const action = subscription.partnerAction;
  const before = forwarded.requests;
  const outcome = () => ({ action, requests: forwarded.requests - before });
  try {
    const [result] = await running.onSubscription(subscription, event, settings, NO_AUTH);
    return isNotRun(result?.output) ? undefined : outcome();
  } catch (error) {
    return { ...outcome(), error: errorOf(error) };
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

async function test({ running }: Started, settings: JsonObject): Promise<readonly ActionOutcome[]> {
  const action = 'test';
  try {
    await running.testAuthentication(settings);
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

async function work(message: Extract<ToPack, { op: 'run' | 'test' }>): Promise<void> {
  const { job } = message;
  const outcomes = await forwarded.runAs(job, () =>
    destinations.use(message.destination, (started) =>
      message.op === 'run' ? run(started, message) : test(started, message.settings),
    ),
  );
  post({ op: 'done', job, outcomes });
}

process.on('message', (message: ToPack) => {
  if (message.op === 'answer' || message.op === 'unanswered') forwarded.settle(message);
  else void work(message);
});
process.on('disconnect', () => process.exit());
post({ op: 'ready' });
