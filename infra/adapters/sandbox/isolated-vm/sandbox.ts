import {
  ChildUser,
  type Logger,
  type Metrics,
  type Sandbox,
  type SandboxProgram,
  type SandboxResult,
} from '@tributary/core';
import { Call } from './call.ts';
import { Check } from './check.ts';
import { Lanes } from './lanes.ts';
import { DEFAULT_LIMITS, type SandboxLimits } from './limits.ts';

export interface IsolatedVmSandboxOptions extends Partial<SandboxLimits> {
  /** Worker processes, at least 1. */
  readonly processes: number;
  /** They are started with the first call, which waits for that: for what is rarely called. Default false. */
  readonly isLazy?: boolean;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The node binary the workers run on; this process's own by default. */
  readonly node?: string;
  /** User and group the workers run as where this process is root's; 0 is this process's own. Default 0. */
  readonly uid?: number;
  /** Starts the workers with fewer rights, see `Confinement`. Default none. */
  readonly wrapper?: readonly string[];
}

export interface IsolatedVmSandbox extends Sandbox {
  /** The process ids of the workers there are now, for operators and tests. */
  workerPids(): readonly number[];
}

/**
 * Runs user code in isolates of isolated-vm, inside worker processes that can be killed.
 *
 * A program goes to the same worker as long as that one lives, and its isolate is kept for its next events. Programs of
 * an owner who did harm go to a worker apart, see `Lanes`.
 */
export function openIsolatedVmSandbox(options: IsolatedVmSandboxOptions): IsolatedVmSandbox {
  const { processes, isLazy = false, metrics, logger, node = process.execPath, ...more } = options;
  const { uid = 0, wrapper = [], ...given } = more;
  const limits: SandboxLimits = { ...DEFAULT_LIMITS, ...given };
  const isRoot = process.getuid?.() === 0;
  const user = new ChildUser({ uid, isRoot, children: 'sandbox workers', logger });
  const lanes = new Lanes(processes, isLazy, { node, limits, user, wrapper, metrics, logger });

  return {
    async run(program, inputs, { captureLogs = false, budget } = {}) {
      if (inputs.length === 0) return [];
      const began = performance.now();
      const call = new Call(program, inputs, captureLogs, limits, budget);
      lanes.submit(call);
      const results = await call.results;
      metrics.observe('tributary_sandbox_run_duration_seconds', (performance.now() - began) / 1000);
      countOutcomes(metrics, results);
      return results;
    },
    async check(program: SandboxProgram) {
      const check = new Check(program, limits);
      lanes.submit(check);
      return check.fault;
    },
    async close() {
      await lanes.close();
    },
    workerPids: () => lanes.pids,
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
