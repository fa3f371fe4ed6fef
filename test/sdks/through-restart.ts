import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { type CanonicalEvent, TOPIC } from '@tributary/core';
import { freePort } from '../engines/engine-process.ts';
import { inherited } from '../helpers/child.ts';
import { entriesOf } from '../helpers/log-of.ts';
import { drained } from '../helpers/running-tributary.ts';
import { startTributary } from '../helpers/tributary.ts';
import type { Task } from './senders/calls.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;

/** The time limit of `sendThroughRestart`, ms. On engines, two processes start twice. */
export const SENT_WITHIN_MS = LONG ? 480_000 : 180_000;
const DRAINED_WITHIN_MS = LONG ? 180_000 : 60_000;

/** A sender that uses an SDK. */
export interface Sender {
  readonly name: string;
  start(task: Task): Sending;
}

export interface Sending {
  /** Resolves once half of its events are in flight. */
  readonly half: Promise<unknown>;
  /** Resolves once its SDK has finished. */
  readonly ended: Promise<unknown>;
  /** Ends it if it still runs. */
  stop(): void;
}

/** A program, run with the address, the write key, its name, the number of rounds, and these arguments. */
export function programSender(
  name: string,
  command: readonly string[],
  args: readonly string[] = [],
): Sender {
  return {
    name,
    start: ({ url, writeKey, rounds }) =>
      run(name, [...command, url, writeKey, name, String(rounds), ...args]),
  };
}

/** Node, with the script of that name. */
export function nodeSender(script: string, name = script, args: readonly string[] = []): Sender {
  const path = new URL(`senders/${script}.ts`, import.meta.url).pathname;
  return programSender(name, [process.execPath, '--disable-warning=ExperimentalWarning', path], args);
}

/**
 * Runs the senders side by side against one Tributary, which is killed and restarted at the same address once
 * each has half of its events in flight. Resolves to the accepted events once all are processed, by the
 * sender's name.
 */
export async function sendThroughRestart(
  senders: readonly Sender[],
  rounds: number,
): Promise<ReadonlyMap<string, readonly CanonicalEvent[]>> {
  const env = { PORT: String(await freePort()) };
  let tributary = await startTributary({ env });
  const running: Sending[] = [];
  try {
    const { url, writeKey, folder } = tributary;
    for (const sender of senders) running.push(sender.start({ url, writeKey, name: sender.name, rounds }));
    await Promise.all(running.map(({ half }) => half));
    await tributary.kill();
    tributary = await startTributary({ folder, env });
    await Promise.all(running.map(({ ended }) => ended));
    await drained(tributary, DRAINED_WITHIN_MS);
    const accepted = (await entriesOf(tributary, TOPIC.accepted)).map(
      ({ value }) => JSON.parse(String(value)) as CanonicalEvent,
    );
    return Map.groupBy(accepted, ({ user_id = '' }) => user_id.replace(/-user$/, ''));
  } finally {
    for (const sending of running) sending.stop();
    await tributary.remove();
  }
}

function run(name: string, [program = '', ...args]: readonly string[]): Sending {
  const child = spawn(program, args, { env: inherited(), stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8');
  });
  const lines = createInterface({ input: child.stdout });
  const ended = once(child, 'close').then(([code]) => {
    if (code !== 0) throw new Error(`${name} ended with ${String(code)}: ${said.slice(-2_000)}`);
    return said;
  });
  const half = Promise.race([once(lines, 'line'), ended]);
  half.catch(() => {}); // it is told by `ended`, also where nobody waits any more
  return { half, ended, stop: () => child.kill('SIGKILL') };
}
