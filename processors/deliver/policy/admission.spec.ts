import type { DeliveryResult } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Admission } from './admission.ts';
import { DEFAULT_BREAKER } from './circuit-breaker.ts';

const LIMITS = { maxConcurrency: 16, perSecond: undefined };
const OK: DeliveryResult = { outcome: 'delivered' };
const THROTTLED: DeliveryResult = {
  outcome: 'retry',
  reason: 'HTTP 429',
  throttled: true,
  afterMs: 2_000,
};
const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503' };

/** An admission whose circuit opened at 0. */
function opened(): Admission {
  const admission = new Admission(DEFAULT_BREAKER, 0);
  for (let n = 0; n < DEFAULT_BREAKER.consecutiveFailures; n++) {
    admission.requestEnded([DOWN], admission.requestBegan(LIMITS, 0), 0);
  }
  return admission;
}

describe('admission to a destination', () => {
  it('one probe at a time once the circuit was open for its time, then one call, then twice as many each second', () => {
    const admission = opened();
    expect(admission.isOpen(0)).toBe(true);
    const back = DEFAULT_BREAKER.coolDownMs;
    expect(admission.isOpen(back)).toBe(false);
    const probe = admission.requestBegan(LIMITS, back);
    expect(admission.isOpen(back)).toBe(true);
    admission.requestEnded([OK], probe, back + 5);
    expect(admission.circuit(back + 5)).toEqual({ kind: 'closed', since: back + 5 });
    const atATime = [0, 1_000, 2_000, 3_000, 4_000].map((ms) => admission.concurrency(LIMITS, back + 5 + ms));
    expect(atATime).toEqual([1, 2, 4, 8, 16]);
  });

  it('is bad since its circuit opened first, however often it was probed', () => {
    const admission = opened();
    for (let at = DEFAULT_BREAKER.coolDownMs; at < 100_000; at += DEFAULT_BREAKER.coolDownMs) {
      admission.requestEnded([DOWN], admission.requestBegan(LIMITS, at), at);
    }
    expect(admission.circuit(100_000)).toEqual({ kind: 'open', since: 0 });
  });

  it('refusals for the rate opened the circuit', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    for (let n = 0; n < 100; n++) {
      const at = n * 100_000;
      admission.requestEnded([THROTTLED], admission.requestBegan(LIMITS, at), at + 10);
      expect(admission.isOpen(at + 10)).toBe(false);
      expect(admission.rateWaitMs(LIMITS, at + 10)).toBeGreaterThanOrEqual(2_000);
    }
    expect(admission.concurrency(LIMITS, 1e9)).toBe(1);
  });

  it('a refusal for the rate answers the probe of a circuit', () => {
    const admission = opened();
    const back = DEFAULT_BREAKER.coolDownMs;
    admission.requestEnded([THROTTLED], admission.requestBegan(LIMITS, back), back + 5);
    expect(admission.circuit(back + 5).kind).toBe('closed');
    expect(admission.rateWaitMs(LIMITS, back + 5)).toBe(2_000);
  });

  it('a batch of which some were refused for the rate is no failure, and lowers the pace', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    expect(admission.perSecond(LIMITS)).toBeUndefined();
    for (let n = 0; n < 20; n++)
      admission.requestEnded([OK, THROTTLED], { limits: LIMITS, began: n * 10, atPace: true }, n * 10 + 5);
    expect(admission.isOpen(200)).toBe(false);
    expect(admission.rateWaitMs(LIMITS, 200)).toBeGreaterThan(0);
    expect(admission.learnedPace()).toBeGreaterThan(0);
  });

  it('a wait that a destination asks for beside its acceptance (the throttle time of Kafka) holds the next request', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    admission.requestEnded([{ ...OK, afterMs: 400 }], admission.requestBegan(LIMITS, 0), 10);
    expect(admission.rateWaitMs(LIMITS, 10)).toBe(400);
    expect(admission.learnedPace()).toBeUndefined();
  });

  it('connections closed under many calls at a time are one failure; a destination that closes each is soon left alone', () => {
    const admission = new Admission(DEFAULT_BREAKER, 0);
    const closed: DeliveryResult = { outcome: 'retry', reason: 'connection closed', reset: true };
    const together = Array.from({ length: 16 }, () => admission.requestBegan(LIMITS, 0));
    for (const [n, request] of together.entries()) admission.requestEnded([closed, closed], request, 10 + n);
    expect(admission.isOpen(30)).toBe(false);
    // Each call takes as long as five of them begin.
    for (let at = 30; at < 30 + 5 * DEFAULT_BREAKER.consecutiveFailures; at++) {
      admission.requestEnded([closed], { ...admission.requestBegan(LIMITS, at), began: at - 5 }, at);
    }
    expect(admission.isOpen(100)).toBe(true);
  });
});

it('single refusals of an idle destination lowered its pace to one request in ten seconds', () => {
  const admission = new Admission(DEFAULT_BREAKER, 0);
  const request = (result: DeliveryResult, at: number) => {
    const began = at + admission.rateWaitMs(LIMITS, at);
    admission.requestEnded([result], admission.requestBegan(LIMITS, began), began + 20);
  };
  for (const minute of [0, 4, 9]) {
    request(THROTTLED, minute * 60_000);
    request(OK, minute * 60_000 + 3_000);
  }
  expect(admission.learnedPace()).toBeGreaterThanOrEqual(1);
});
