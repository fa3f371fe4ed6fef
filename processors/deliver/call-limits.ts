import type { Destination } from '@tributary/core';
import type { PipelineOptions } from '../options.ts';
import type { CallLimits } from './gate.ts';

/** What the calls of one process to a destination are held to, where so many processes share them. */
export function callLimits(
  destination: Pick<Destination, 'max_concurrency' | 'rate_limit_per_second'> | undefined,
  { maxCalls, callsPerSecond }: Pick<PipelineOptions, 'maxCalls' | 'callsPerSecond'>,
  processes = 1,
): CallLimits {
  const perSecond = destination?.rate_limit_per_second ?? callsPerSecond;
  const ofAll = destination?.max_concurrency;
  return {
    maxCalls: ofAll == null ? maxCalls : Math.max(1, Math.floor(ofAll / processes)),
    perSecond: perSecond === undefined ? undefined : perSecond / processes,
  };
}
