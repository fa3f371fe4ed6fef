import { performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';

/**
 * What the operating system gave to this thread. Shares are measured by it, not by elapsed time: where the thread gets a
 * tenth of a processor, a tenth of the elapsed time is all it has.
 */
export interface ThreadTime {
  /** Processor time of the thread, ms. */
  readonly cpu: Clock;
  /** Time in which the thread ran or had nothing to do, ms: elapsed time without that in which it waited to run. */
  readonly available: Clock;
}

export const THREAD_TIME: ThreadTime = {
  cpu: cpuMs,
  available: () => performance.eventLoopUtilization().idle + cpuMs(),
};

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
