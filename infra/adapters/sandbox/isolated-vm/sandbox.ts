import {
  ChildUser,
  type Logger,
  type Metrics,
  type Sandbox,
  type SandboxProgram,
  type SandboxResult,
} from '@tributary/core';
import { CheckCall, RunCall } from './calls.ts';
import { DEFAULT_LIMITS, type SandboxLimits } from './limits.ts';
import { WorkerSlots } from './worker-slots.ts';

export interface IsolatedVmSandboxOptions extends Partial<SandboxLimits> {
  /** Worker processes, at least 1. */
  readonly processes: number;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The node binary of the workers; this process's own by default. */
  readonly node?: string;
  /** User and group of the workers if this process runs as root; 0 keeps its own. Default 0. */
  readonly uid?: number;
  /** Command that starts the workers with fewer rights, see `Confinement`. Default none. */
  readonly wrapper?: readonly string[];
}

export interface IsolatedVmSandbox extends Sandbox {
  /** The process ids of the current workers, for operators and tests. */
  workerPids(): readonly number[];
}

/**
 * Runs user code in isolates of isolated-vm, within worker processes that can be killed. They start with the first call, which
 * waits for them: most installations begin without such code, and each process takes 85 MB.
 *
 * A program runs in the same worker for as long as that one lives, and its isolate is kept for later events. Programs of
 * quarantined owners run in a worker of their own, see `WorkerSlots`.
 */
export function openIsolatedVmSandbox(options: IsolatedVmSandboxOptions): IsolatedVmSandbox {
  const { processes, metrics, logger, node = process.execPath, ...more } = options;
  const { uid = 0, wrapper = [], ...given } = more;
  const limits: SandboxLimits = { ...DEFAULT_LIMITS, ...given };
  const isRoot = process.getuid?.() === 0;
  const user = new ChildUser({ uid, isRoot, children: 'sandbox workers', logger });
  const slots = new WorkerSlots(processes, { node, limits, user, wrapper, metrics, logger });

  return {
    async run(program, inputs, { captureLogs = false, budget } = {}) {
      if (inputs.length === 0) return [];
      const began = performance.now();
      const call = new RunCall(program, inputs, captureLogs, limits, budget);
      slots.submit(call);
      const results = await call.results;
      metrics.observe('tributary_sandbox_run_duration_seconds', (performance.now() - began) / 1000);
      countOutcomes(metrics, results);
      return results;
    },
    async check(program: SandboxProgram) {
      const check = new CheckCall(program, limits);
      slots.submit(check);
      return check.fault;
    },
    async close() {
      await slots.close();
    },
    workerPids: () => slots.pids,
  };
}

function countOutcomes(metrics: Metrics, results: readonly SandboxResult[]): void {
  const counts = new Map<string, number>();
  for (const result of results) {
    const outcome = result.ok ? 'ok' : result.kind;
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  for (const [outcome, count] of counts) metrics.count('tributary_sandbox_events_total', { outcome }, count);
}
