import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { badOn, counting, inputs, outcomes, program, SEARCH } from '../suite/transformations.ts';

function open(options: Partial<Parameters<typeof openIsolatedVmSandbox>[0]> = {}) {
  const sandbox = openIsolatedVmSandbox({ processes: 1, metrics: NO_METRICS, logger: NO_LOGGER, ...options });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

describe('The lost worker processes of isolated-vm', () => {
  it('that stop answering are killed, and only the event that blocked them fails', async () => {
    const lost: object[] = [];
    const warn = (fields: object) => lost.push(fields);
    // An honest event beside a worker that is stuck may wait for a processor for longer than the usual limit.
    const counts = new Map<string, number>();
    const sandbox = open({
      logger: { ...NO_LOGGER, warn },
      metrics: counting(counts),
      eventMs: 300,
      watchdogMs: 1_500,
    });
    const results = await sandbox.run(badOn(SEARCH), inputs(5, [2]));
    // The reason beside the outcome: a worker that the system ends counts as out of memory.
    expect({ outcomes: outcomes(results), lost }).toEqual({
      outcomes: ['ok', 'ok', 'timeout', 'ok', 'ok'],
      lost: [expect.objectContaining({ reason: 'timeout' }), expect.objectContaining({ reason: 'timeout' })],
    });
    expect(counts.get('tributary_sandbox_kills_total timeout')).toBe(2);
    expect(counts.get('tributary_sandbox_events_total ok')).toBe(4);
    expect(counts.get('tributary_sandbox_events_total timeout')).toBe(1);
  });

  it('that end themselves because code runs beyond its limit report a timeout, not memory', async () => {
    const lost: object[] = [];
    const warn = (fields: object) => lost.push(fields);
    // As on a machine that hardly gives the worker a processor: the watchdog never comes to count its time.
    const sandbox = open({ logger: { ...NO_LOGGER, warn }, eventMs: 200, watchdogMs: 60_000 });
    expect(outcomes(await sandbox.run(badOn(SEARCH), inputs(2, [1])))).toEqual(['ok', 'timeout']);
    const stuck = { reason: 'timeout', detail: expect.stringContaining('failed to terminate') };
    expect(lost).toEqual([expect.objectContaining(stuck), expect.objectContaining(stuck)]);
  });

  describe('with time to spare', () => {
    const patient = { eventMs: 60_000, watchdogMs: 120_000 };
    it('report memory when an isolate is full', async () => {
      // Small objects would keep the collector busy for longer than the time limit, if the machine is busy too.
      const grow = badOn('const all = []; for (;;) all.push(new Array(1e4).fill(0.5))');
      const results = await open({ ...patient, isolateMib: 32, recycleAboveMib: 24 }).run(
        grow,
        inputs(5, [2]),
      );
      expect(outcomes(results)).toEqual(['ok', 'ok', 'memory', 'ok', 'ok']);
    });

    it('are killed for memory outside of the isolates', async () => {
      const parse = badOn(`JSON.parse('['.repeat(2e7))`);
      const results = await open({ ...patient, processMib: 256 }).run(parse, inputs(5, [2]));
      expect(outcomes(results)).toEqual(['ok', 'ok', 'memory', 'ok', 'ok']);
    });

    it('free the memory that an event left behind without failing the next one', async () => {
      const leaky = program(`function transform(event) {
        const kept = new Array(200_000).fill(event.properties.n);
        (async () => { for (let i = 0; i < 20; i++) await kept })(); return event }`);
      const sandbox = open(patient);
      for (let i = 0; i < 10; i++) {
        expect(new Set(outcomes(await sandbox.run(leaky, inputs(20))))).toEqual(new Set(['ok']));
      }
    });
  });
});
