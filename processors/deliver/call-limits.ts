import type { Destination } from '@tributary/core';
import type { PipelineOptions } from '../options.ts';
import type { CallLimits } from './gate.ts';

type Stated = Pick<Destination, 'max_concurrency' | 'rate_limit_per_second'>;

/** Whether a destination has limits of its own, which hold for all processes together. */
export function hasLimits(destination: Stated | undefined): boolean {
  return destination?.max_concurrency != null || destination?.rate_limit_per_second != null;
}

/** What the calls of one process to a destination are held to, where so many deliver to it: each has its part. */
export function callLimits(
  destination: Stated | undefined,
  { maxCalls, callsPerSecond }: Pick<PipelineOptions, 'maxCalls' | 'callsPerSecond'>,
  processes: number,
): CallLimits {
  const { max_concurrency: calls, rate_limit_per_second: perSecond } = destination ?? {};
  return {
    maxCalls: calls == null ? maxCalls : Math.max(1, Math.floor(calls / processes)),
    perSecond: perSecond == null ? callsPerSecond : perSecond / processes,
  };
}
