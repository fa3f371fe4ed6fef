import {
  type Logger,
  type Metrics,
  type Sandbox,
  type SandboxProgram,
  type SandboxResult,
  Unavailable,
} from '@tributary/core';
import { Call } from './call.ts';
import { Check } from './check.ts';
import { Lane } from './lane.ts';
import { DEFAULT_LIMITS, type SandboxLimits } from './limits.ts';
import type { Work } from './work.ts';
import { WorkerUser } from './worker-user.ts';

export interface IsolatedVmSandboxOptions extends Partial<SandboxLimits> {
  /** Worker processes, at least 1. */
  readonly processes: number;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The node binary the workers run on; this process's own by default. */
  readonly node?: string;
  /** User and group the workers run as where this process is root's; 0 is this process's own. Default 0. */
  readonly uid?: number;
}

export interface IsolatedVmSandbox extends Sandbox {
  /** The process ids of the workers there are now, for operators and tests. */
  workerPids(): readonly number[];
}

/**
 * Runs user code in isolates of isolated-vm, inside worker processes that can be killed.
 *
 * A program goes to the same worker as long as that one lives, and its isolate is kept for its next events.
 */
export function openIsolatedVmSandbox(options: IsolatedVmSandboxOptions): IsolatedVmSandbox {
  const { processes, metrics, logger, node = process.execPath, uid = 0, ...given } = options;
  const limits: SandboxLimits = { ...DEFAULT_LIMITS, ...given };
  const user = new WorkerUser(uid, logger);
  const lanes = Array.from({ length: processes }, () => new Lane({ node, limits, user, metrics, logger }));

  function submit(work: Work): void {
    const own = hash(work.program.id) % lanes.length;
    const inOrder = [...lanes.slice(own), ...lanes.slice(0, own)];
    const lane = inOrder.find(({ isDown }) => !isDown);
    if (lane === undefined) work.reject(new Unavailable('no sandbox worker can be started'));
    else lane.submit(work);
  }

  return {
    async run(program, inputs, { captureLogs = false } = {}) {
      if (inputs.length === 0) return [];
      const began = performance.now();
      const call = new Call(program, inputs, captureLogs, limits);
      submit(call);
      const results = await call.results;
      metrics.observe('tributary_sandbox_run_seconds', (performance.now() - began) / 1000);
      countOutcomes(metrics, results);
      return results;
    },
    async check(program: SandboxProgram) {
      const check = new Check(program, limits);
      submit(check);
      return check.fault;
    },
    async close() {
      await Promise.all(lanes.map((lane) => lane.close()));
    },
    workerPids: () => lanes.flatMap(({ pid }) => (pid === undefined ? [] : [pid])),
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

/** FNV-1a, 32 bit. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}
