import { randomUUID } from 'node:crypto';

/** Largest 12-bit counter within one millisecond; past it the generator runs ahead of the clock by a millisecond. */
const MAX_COUNTER = 0xfff;

/**
 * UUIDs of version 7 (RFC 9562, method 1: a counter in `rand_a`): sortable by time and strictly increasing within one
 * generator. The 62 random bits are those of `crypto.randomUUID`, whose pooled entropy makes this an order of magnitude
 * cheaper than asking for random bytes; ids are made twice per request.
 */
export function createUuidV7(now: () => number): () => string {
  let lastMs = -1;
  let counter = 0;
  let prefix = '';
  return () => {
    const ms = now();
    if (ms > lastMs) startMillisecond(ms);
    else if (counter < MAX_COUNTER) counter++;
    else startMillisecond(lastMs + 1);
    return `${prefix}7${counter.toString(16).padStart(3, '0')}${randomUUID().slice(18)}`;
  };

  function startMillisecond(ms: number): void {
    lastMs = ms;
    counter = 0;
    const hex = ms.toString(16).padStart(12, '0');
    prefix = `${hex.slice(0, 8)}-${hex.slice(8)}-`;
  }
}
