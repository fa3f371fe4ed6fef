import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { EventLogHarness, Medium } from '../suite/harness.ts';
import { eventually } from '../suite/log-contents.ts';

/** The task of `child.ts`. */
export type ChildTask =
  | { readonly mode: 'append'; readonly run: number; readonly callers: number }
  | { readonly mode: 'stages' };

/** Its output: one JSON text a line. */
export interface ChildLine {
  readonly ready?: boolean;
  readonly acknowledged?: { readonly topic: string; readonly caller: string; readonly n: number };
  readonly ended?: string;
}

export interface Child {
  readonly pid: number;
  readonly lines: readonly ChildLine[];
  /** Waits until the lines fulfil the check. */
  saw(check: () => boolean): Promise<void>;
  signal(name: NodeJS.Signals): void;
  kill(): Promise<void>;
  /** The exit code, null after a signal. */
  readonly exited: Promise<number | null>;
}

const running = new Set<ChildProcess>();

/** Starts a process that opens the same medium. */
export function startChild(harness: EventLogHarness, medium: Medium, task: ChildTask): Child {
  return start('./child.ts', [harness.module, JSON.stringify(medium), JSON.stringify(task)], 'inherit');
}

/** Starts a process with stages that an entry may crash. */
export function startCrashingChild(harness: EventLogHarness, medium: Medium): Child {
  return start('./crashing-child.ts', [harness.module, JSON.stringify(medium)], 'ignore');
}

function start(name: string, args: readonly string[], errors: 'inherit' | 'ignore'): Child {
  const script = fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', errors] });
  running.add(child);
  const lines: ChildLine[] = [];
  const output = createInterface({ input: child.stdout });
  // The last line may be cut short by a kill.
  output.on('line', (line) => line.endsWith('}') && lines.push(JSON.parse(line)));
  const closed = new Promise<void>((resolve) => output.once('close', resolve));
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve)).finally(() =>
    running.delete(child),
  );
  const signal = (name: NodeJS.Signals) => void child.kill(name);
  return {
    pid: child.pid ?? -1,
    lines,
    exited,
    signal,
    saw: (check) => eventually(check, `child said only ${lines.length} lines`, 30_000),
    kill: async () => {
      signal('SIGKILL');
      await exited;
      await closed;
    },
  };
}

/** Cleans up after a test that failed half-way. */
export async function killChildren(): Promise<void> {
  await Promise.all(
    [...running].map((child) => {
      const exited = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      return exited;
    }),
  );
}
