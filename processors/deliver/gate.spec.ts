import { DEFAULT_BREAKER, type DeliveryResult } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Gate } from './gate.ts';

const LIMITS = { maxCalls: 16, perSecond: undefined };
const OK: DeliveryResult = { outcome: 'delivered' };
const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503' };

/** A gate whose circuit opened at 0. */
function opened(): Gate {
  const gate = new Gate(DEFAULT_BREAKER, 0);
  for (let n = 0; n < DEFAULT_BREAKER.consecutiveFailures; n++) {
    gate.begun(LIMITS, 0);
    gate.ended([DOWN], LIMITS, 0, 0);
  }
  return gate;
}

describe('the gate to a destination', () => {
  it('one probe at a time once the circuit was open for its time, then one call, then twice as many each second', () => {
    const gate = opened();
    expect(gate.isOpen(0)).toBe(true);
    const back = DEFAULT_BREAKER.coolDownMs;
    expect(gate.isOpen(back)).toBe(false);
    gate.begun(LIMITS, back);
    expect(gate.isOpen(back)).toBe(true);
    gate.ended([OK], LIMITS, back, back + 5);
    expect(gate.circuit(back + 5)).toEqual({ kind: 'closed', since: back + 5 });
    const atATime = [0, 1_000, 2_000, 3_000, 4_000].map((ms) => gate.callsAtATime(LIMITS, back + 5 + ms));
    expect(atATime).toEqual([1, 2, 4, 8, 16]);
  });

  it('is bad since its circuit opened first, however often it was probed', () => {
    const gate = opened();
    for (let at = DEFAULT_BREAKER.coolDownMs; at < 100_000; at += DEFAULT_BREAKER.coolDownMs) {
      gate.begun(LIMITS, at);
      gate.ended([DOWN], LIMITS, at, at);
    }
    expect(gate.circuit(100_000)).toEqual({ kind: 'open', since: 0 });
  });

  it('waits for as long as the destination asked, then gives it less', () => {
    const gate = new Gate(DEFAULT_BREAKER, 0);
    gate.begun(LIMITS, 0);
    gate.ended([{ ...DOWN, afterMs: 2_000 }], LIMITS, 0, 10);
    expect(gate.paceMs(LIMITS, 10)).toBe(2_000);
    expect(gate.paceMs(LIMITS, 2_010)).toBe(0);
    expect(gate.callsAtATime(LIMITS, 10)).toBe(8);
    expect(gate.isOpen(10)).toBe(false);
  });

  it('a batch of which some were taken is no failure, but no call begins before the time asked for the others', () => {
    const gate = new Gate(DEFAULT_BREAKER, 0);
    for (let n = 0; n < 20; n++) gate.ended([OK, { ...DOWN, afterMs: 2_000 }], LIMITS, 0, 10);
    expect(gate.isOpen(10)).toBe(false);
    expect(gate.paceMs(LIMITS, 10)).toBe(2_000);
    expect(gate.callsAtATime(LIMITS, 10)).toBe(16);
  });

  it('connections closed under many calls at a time are one failure; a place that closes each is soon left alone', () => {
    const gate = new Gate(DEFAULT_BREAKER, 0);
    const closed: DeliveryResult = { outcome: 'retry', reason: 'connection closed', reset: true };
    for (let n = 0; n < 16; n++) gate.ended([closed, closed], LIMITS, 0, 10 + n);
    expect(gate.isOpen(30)).toBe(false);
    // Each call takes as long as five of them begin.
    for (let at = 30; at < 30 + 5 * DEFAULT_BREAKER.consecutiveFailures; at++) {
      gate.begun(LIMITS, at);
      gate.ended([closed], LIMITS, at - 5, at);
    }
    expect(gate.isOpen(100)).toBe(true);
  });
});
