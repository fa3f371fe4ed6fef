/**
 * The process of the pack. It has no environment, no network and no right to write or to start anything; it is told what
 * to run, and ends with the process that started it.
 */
import { Socket } from 'node:net';
import type { JsonObject } from '@tributary/core';
import type { Chosen } from './chosen.ts';
import type { ActionOutcome, FromPack, Subscription, ToPack } from './messages.ts';
import {
  loadDefinition,
  type PackDefinition,
  type PackDestination,
  replaceFetch,
  startDestination,
} from './pack.ts';
import { ForwardedFetch } from './worker-fetch.ts';

/** A message of an error is kept up to this length. */
const MAX_MESSAGE = 500;
const NO_AUTH = { accessToken: '', refreshToken: '' };

const tell = (message: FromPack) => void process.send?.(message);
const forwarded = new ForwardedFetch(tell);
replaceFetch(forwarded.fetch);
// Whatever of the pack goes around `fetch` goes nowhere.
Socket.prototype.connect = () => {
  throw new Error('no network in this process');
};

interface Started {
  readonly definition: PackDefinition;
  readonly running: PackDestination;
}
const started = new Map<Chosen, Started>();
let jobs = 0;

function destinationOf(name: Chosen): Started {
  const known = started.get(name);
  if (known !== undefined) return known;
  const definition = loadDefinition(name);
  const made = { definition, running: startDestination(definition) };
  started.set(name, made);
  return made;
}

async function run(message: Extract<ToPack, { op: 'run' }>): Promise<readonly ActionOutcome[]> {
  const { definition, running } = destinationOf(message.destination);
  const outcomes: ActionOutcome[] = [];
  const presets = presetsOf(definition).filter(({ name }) => message.presets.includes(name));
  for (const subscription of [...presets, ...message.subscriptions]) {
    const outcome = await runAction(running, subscription, message.event, message.settings);
    if (outcome !== undefined) outcomes.push(outcome);
  }
  return outcomes;
}

/** Undefined when the event is none of the action's. */
async function runAction(
  running: PackDestination,
  subscription: Subscription,
  event: JsonObject,
  settings: JsonObject,
): Promise<ActionOutcome | undefined> {
  const action = subscription.partnerAction;
  try {
    const [result] = await running.onSubscription(subscription, event, settings, NO_AUTH);
    return result?.output === 'not subscribed' ? undefined : { action };
  } catch (error) {
    return { action, error: errorOf(error) };
  }
}

function presetsOf({ presets = [] }: PackDefinition): readonly Subscription[] {
  return presets.flatMap(({ name, type, subscribe, partnerAction, mapping = {} }) =>
    type === 'automatic' && subscribe !== undefined ? [{ name, subscribe, partnerAction, mapping }] : [],
  );
}

async function test({
  destination,
  settings,
}: Extract<ToPack, { op: 'test' }>): Promise<readonly ActionOutcome[]> {
  const action = 'test';
  try {
    await destinationOf(destination).running.testAuthentication(settings);
    return [{ action }];
  } catch (error) {
    return [{ action, error: errorOf(error) }];
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
  jobs += 1;
  const outcomes = await forwarded.runAs(job, () => (message.op === 'run' ? run(message) : test(message)));
  jobs -= 1;
  // The pack keeps every answer for ever.
  if (jobs === 0) for (const { running } of started.values()) running.responses = [];
  tell({ op: 'done', job, outcomes });
}

process.on('message', (message: ToPack) => {
  if (message.op === 'answer' || message.op === 'unanswered') forwarded.settle(message);
  else void work(message);
});
process.on('disconnect', () => process.exit());
