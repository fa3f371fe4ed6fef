import type { DeliveryResult } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Admission } from './admission.ts';
import { DEFAULT_BREAKER } from './circuit-breaker.ts';

const LIMITS = { maxConcurrency: 16, perSecond: undefined };
const OK: DeliveryResult = { outcome: 'delivered' };
const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503' };

/** An admission whose circuit opened at 0. */
function opened(): Admission {
  const admission = new Admission(DEFAULT_BREAKER, 0);
  for (let n = 0; n < DEFAULT_BREAKER.consecutiveFailures; n++) {
    admission.requestBegan(LIMITS, 0);
    admission.requestEnded([DOWN], LIMITS, 0, 0);
  }
  return admission;
}

describe('admission to a destination', () => {
  it('one probe at a time once the circuit was open for its time, then one call, then twice as many each second', () => {
    const admission = opened();
    expect(admission.isOpen(0)).toBe(true);
    const back = DEFAULT_BREAKER.coolDownMs;
    expect(admission.isOpen(back)).toBe(false);
    admission.requestBegan(LIMITS, back);
    expect(admission.isOpen(back)).toBe(true);
    admission.requestEnded([OK], LIMITS, back, back + 5);
    expect(admission.circuit(back + 5)).toEqual({ kind: 'closed', since: back + 5 });
    const atATime = [0, 1_000, 2_000, 3_000, 4_000].map((ms) => admission.concurrency(LIMITS, back + 5 + ms));
    expect(atATime).toEqual([1, 2, 4, 8, 16]);
  });

  it('is bad since its circuit opened first, however often it was probed', () => {
    const admission = opened();
    for (let at = DEFAULT_BREAKER.coolDownMs; at < 100_000; at += DEFAULT_BREAKER.coolDownMs) {
      admission.requestBegan(LIMITS, at);
      admission.requestEnded([DOWN], LIMITS, at, at);
    }
    expect(admission.circuit(100_000)).toEqual({ kind: 'open', since: 0 });
  });

  it('waits for as long as the destination asked, then gives it less', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    admission.requestBegan(LIMITS, 0);
    admission.requestEnded([{ ...DOWN, afterMs: 2_000 }], LIMITS, 0, 10);
    expect(admission.rateWaitMs(LIMITS, 10)).toBe(2_000);
    expect(admission.rateWaitMs(LIMITS, 2_010)).toBe(0);
    expect(admission.concurrency(LIMITS, 10)).toBe(8);
    expect(admission.isOpen(10)).toBe(false);
  });

  it('a batch of which some were taken is no failure, but no call begins before the time asked for the others', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    for (let n = 0; n < 20; n++) admission.requestEnded([OK, { ...DOWN, afterMs: 2_000 }], LIMITS, 0, 10);
    expect(admission.isOpen(10)).toBe(false);
    expect(admission.rateWaitMs(LIMITS, 10)).toBe(2_000);
    expect(admission.concurrency(LIMITS, 10)).toBe(16);
  });

  it('connections closed under many calls at a time are one failure; a destination that closes each is soon left alone', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    const closed: DeliveryResult = { outcome: 'retry', reason: 'connection closed', reset: true };
    for (let n = 0; n < 16; n++) admission.requestEnded([closed, closed], LIMITS, 0, 10 + n);
    expect(admission.isOpen(30)).toBe(false);
    // Each call takes as long as five of them begin.
    for (let at = 30; at < 30 + 5 * DEFAULT_BREAKER.consecutiveFailures; at++) {
      admission.requestBegan(LIMITS, at);
      admission.requestEnded([closed], LIMITS, at - 5, at);
    }
    expect(admission.isOpen(100)).toBe(true);
  });
});
