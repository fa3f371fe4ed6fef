import {
  type CanonicalEvent,
  type SandboxInput,
  type SandboxResult,
  type StageContext,
  type Transformation,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { PIECE_CHARS, type RunPiece, yielding } from '../fairness/fair-share.ts';
import {
  afterRuns,
  CallSize,
  DEFAULT_FAILURE_LIMITS,
  isFailing,
  messageWithoutValues,
  NO_RUNS,
  type RunFailure,
  shareOf,
  Transformer,
} from './transformer.ts';

const TRANSFORMATION: Transformation = {
  id: 't1',
  version: 1,
  workspace_id: 'w1',
  name: 'n',
  description: null,
  source_code: 'function transform(event) { return event; }',
  test_input: null,
  test_output: null,
  status: 'active',
  test_error: null,
  last_error: null,
  created_by: 'a1',
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
};

function event(id: string): CanonicalEvent {
  return {
    message_id: id,
    type: 'track',
    event: 'A',
    user_id: 'u',
    timestamp: '2026-01-01T00:00:00.000Z',
    received_at: '2026-01-01T00:00:00.000Z',
    environment: 'production',
    workspace_id: 'w1',
  };
}

function echo({ event }: SandboxInput): SandboxResult {
  return { ok: true, outputs: [event], logs: [], durationMs: 0, loadMs: 0 };
}

/** A sandbox with calls that end when the test releases them; `Transformer` sees only its answers. */
class BlockedSandbox {
  readonly calls: { program: string; size: number; answer(): void; fail(error: Error): void }[] = [];
  answerWith: (input: SandboxInput) => SandboxResult = echo;

  run({ id }: { id: string }, inputs: readonly SandboxInput[]): Promise<readonly SandboxResult[]> {
    return new Promise((resolve, reject) => {
      const answer = () => resolve(inputs.map(this.answerWith));
      this.calls.push({ program: id, size: inputs.length, answer, fail: reject });
    });
  }

  async check(): Promise<undefined> {}
  async close(): Promise<void> {}
}

function setUp(limits: { maxEvents?: number; maxBytes?: number; runPiece?: RunPiece } = {}) {
  const sandbox = new BlockedSandbox();
  const noted: RunFailure[] = [];
  const counted: number[] = [];
  const state = { transformation: TRANSFORMATION };
  const transformer = new Transformer({
    sandbox,
    failures: { note: (_transformation, outcomes) => noted.push(...outcomes) },
    elapsed: () => performance.now(),
    runMetrics: {
      note: (_transformation, runs) => counted.push(...runs.map(({ durationMs }) => durationMs)),
    },
    transformEvents: limits.maxEvents ?? 200,
    transformBytes: limits.maxBytes ?? 256 * 1024,
    runPiece: limits.runPiece ?? yielding,
    catalog: { state: { transformation: () => state.transformation } },
  });
  const run = (
    id: string,
    transformation = TRANSFORMATION,
    timeoutMs?: number,
    context: Pick<StageContext, 'room'> = {},
  ) => {
    const input = { event: JSON.stringify(event(id)), context: '{}', at: 0, seed: id };
    const bounds = { pendingEvent: { isDone: false }, share: shareOf(1) };
    return transformer.run(transformation, event(id), input, context, bounds, timeoutMs);
  };
  return { sandbox, noted, counted, state, run };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

describe('Transformer', () => {
  it('sends what gathered while the previous call ran as the next one, one call at a time', async () => {
    const { sandbox, run } = setUp();
    const first = [run('1'), run('2')];
    await turn();
    const second = [run('3'), run('4'), run('5')];
    await turn();
    expect(sandbox.calls.map(({ size }) => size)).toEqual([2]);
    sandbox.calls[0]?.answer();
    await Promise.all(first);
    await turn();
    expect(sandbox.calls.map(({ size }) => size)).toEqual([2, 3]);
    sandbox.calls[1]?.answer();
    const outcomes = await Promise.all(second);
    expect(
      outcomes.map((outcome) =>
        outcome !== 'too slow' && outcome.ok ? outcome.events[0]?.message_id : 'failed',
      ),
    ).toEqual(['3', '4', '5']);
  });

  it('answers timed-out callers when the sandbox takes too long, and runs none of the events still waiting', async () => {
    const { sandbox, noted, run } = setUp({ maxEvents: 1 });
    const runs = ['1', '2', '3'].map((id) => run(id, TRANSFORMATION, 30));
    expect(await Promise.all(runs)).toEqual(['too slow', 'too slow', 'too slow']);
    sandbox.calls[0]?.answer();
    await turn();
    expect(sandbox.calls.map(({ size }) => size)).toEqual([1]);
    expect(noted).toHaveLength(1);
  });

  it('takes no more events or bytes into a call than allowed', async () => {
    const { sandbox, run } = setUp({ maxEvents: 2 });
    const runs = ['1', '2', '3'].map((id) => run(id));
    await turn();
    sandbox.calls[0]?.answer();
    await turn();
    sandbox.calls[1]?.answer();
    await Promise.all(runs);
    expect(sandbox.calls.map(({ size }) => size)).toEqual([2, 1]);

    const small = setUp({ maxBytes: 10 });
    void small.run('1');
    void small.run('2');
    await turn();
    expect(small.sandbox.calls.map(({ size }) => size)).toEqual([1]);
  });

  it('runs versions of a transformation as programs of their own', async () => {
    const { sandbox, run } = setUp();
    const runs = [run('1'), run('2', { ...TRANSFORMATION, version: 2 })];
    await turn();
    expect(sandbox.calls.map(({ program }) => program)).toEqual(['t1:1', 't1:2']);
    for (const call of sandbox.calls) call.answer();
    await Promise.all(runs);
  });

  it('one call of 200 small events returned 644 MB: calls follow what their program makes of events', async () => {
    const { sandbox, run } = setUp();
    const full = JSON.stringify({ ...event('out'), properties: { text: 'x'.repeat(30_000) } });
    sandbox.answerWith = () => ({
      ok: true,
      outputs: Array(100).fill(full),
      logs: [],
      durationMs: 1,
      loadMs: 0,
    });
    const runs = Array.from({ length: 12 }, (_, i) => run(`${i}`));
    for (let call = 0; call < 9; call++) {
      while (sandbox.calls.length <= call) await turn();
      sandbox.calls[call]?.answer();
    }
    await Promise.all(runs);
    expect(sandbox.calls.map(({ size }) => size)).toEqual([4, ...Array(8).fill(1)]);
  });

  it('read 70 outputs of 25 KB in one turn of the event loop: they are read in pieces', async () => {
    const pieces: number[] = [];
    const { sandbox, run } = setUp({
      runPiece: async (workspaceId, work) => {
        expect(workspaceId).toBe('w1');
        const result = work();
        pieces.push(JSON.stringify(result).length);
        return result;
      },
    });
    const text = 'y'.repeat(21_000);
    const output = (n: number) => JSON.stringify({ ...event('out'), properties: { n, text } });
    const outputs = Array.from({ length: 60 }, (_, n) => output(n));
    sandbox.answerWith = () => ({ ok: true, outputs, logs: [], durationMs: 1, loadMs: 0 });
    const large = run('large');
    await turn();
    sandbox.calls[0]?.answer();
    const outcome = await large;
    expect(outcome).toMatchObject({ ok: true, isLarge: true });
    const events = typeof outcome === 'object' && outcome.ok ? outcome.events : [];
    expect(events.map(({ properties }) => properties?.n)).toEqual(outputs.map((_, n) => n));
    expect(pieces.length).toBeGreaterThan(7);
    expect(Math.max(...pieces)).toBeLessThan(PIECE_CHARS + 30_000);
  });

  it('one bad output in a later piece fails the whole event', async () => {
    const { sandbox, run } = setUp();
    const good = JSON.stringify({ ...event('out'), properties: { text: 'z'.repeat(30_000) } });
    const outputs = [...Array(9).fill(good), '{"type":"track","user_id":7}'];
    sandbox.answerWith = () => ({ ok: true, outputs, logs: [], durationMs: 1, loadMs: 0 });
    const outcome = run('1');
    await turn();
    sandbox.calls[0]?.answer();
    expect(await outcome).toMatchObject({ ok: false, kind: 'output', message: 'user_id is not a string' });
  });

  it('runs nothing for a partition without room until there is some, and others meanwhile', async () => {
    const { sandbox, run } = setUp();
    const change = Promise.withResolvers<void>();
    const full: { change: Promise<void> | undefined } = { change: change.promise };
    const blocked = run('held', TRANSFORMATION, undefined, { room: () => full.change });
    await turn();
    const free = run('free');
    await turn();
    expect(sandbox.calls.map(({ size }) => size)).toEqual([1]);
    sandbox.calls[0]?.answer();
    expect(await free).toMatchObject({ events: [{ message_id: 'free' }] });
    full.change = undefined;
    change.resolve();
    await turn();
    sandbox.calls[1]?.answer();
    expect(await blocked).toMatchObject({ events: [{ message_id: 'held' }] });
  });

  it('drops events waiting for room in a revoked partition', async () => {
    const { sandbox, run } = setUp();
    const change = Promise.withResolvers<void>();
    const partition = { left: false };
    const room = () => {
      if (partition.left) throw new Error('left');
      return change.promise;
    };
    const blocked = run('held', TRANSFORMATION, undefined, { room });
    await turn();
    partition.left = true;
    change.resolve();
    await expect(blocked).rejects.toThrow('left');
    expect(sandbox.calls).toEqual([]);
  });

  it('a deadline ends the wait for room like any other', async () => {
    const { sandbox, run } = setUp();
    const room = () => new Promise<void>(() => {});
    expect(await run('held', TRANSFORMATION, 30, { room })).toBe('too slow');
    expect(sandbox.calls).toEqual([]);
  });

  it('answers every event of the call that the sandbox is unavailable, and continues', async () => {
    const { sandbox, noted, run } = setUp();
    const failed = Promise.allSettled([run('1'), run('2')]);
    await turn();
    const later = run('3');
    sandbox.calls[0]?.fail(new Unavailable('no worker'));
    expect((await failed).map((result) => result.status)).toEqual(['rejected', 'rejected']);
    await turn();
    sandbox.calls[1]?.answer();
    expect(await later).toMatchObject({ ok: true });
    expect(noted).toEqual([undefined]);
  });

  it('stops running waiting events once the transformation may not run any more', async () => {
    const { sandbox, state, run } = setUp({ maxEvents: 1 });
    sandbox.answerWith = () => ({
      ok: false,
      kind: 'timeout',
      message: 'slow',
      logs: [],
      durationMs: 100,
      loadMs: 0,
    });
    const runs = [run('1'), run('2'), run('3')];
    await turn();
    state.transformation = { ...TRANSFORMATION, status: 'error', last_error: 'slow' };
    sandbox.calls[0]?.answer();
    expect(await Promise.all(runs)).toMatchObject([
      { ok: false, kind: 'timeout' },
      { ok: false, kind: 'refused', message: 'its transformation is in error: slow' },
      { ok: false, kind: 'refused' },
    ]);
    expect(sandbox.calls).toHaveLength(1);
  });

  it('notes an output that is no event as a failure', async () => {
    const { sandbox, noted, counted, run } = setUp();
    sandbox.answerWith = () => ({
      ok: true,
      outputs: ['{"type":"track"}'],
      logs: [],
      durationMs: 1,
      loadMs: 0,
    });
    const running = run('1');
    await turn();
    sandbox.calls[0]?.answer();
    expect(await running).toMatchObject({ ok: false, kind: 'output' });
    expect(noted).toEqual(['output']);
    expect(counted).toEqual([1]);
  });
});

function results(events: number, chars: number): readonly SandboxResult[] {
  return Array.from({ length: events }, () => ({
    ok: true,
    outputs: ['x'.repeat(chars)],
    logs: [],
    durationMs: 0,
    loadMs: 0,
  }));
}

it('starts small and doubles while outputs stay small', () => {
  const size = new CallSize();
  const sizes = Array.from({ length: 6 }, () => {
    size.note(results(size.events, 300));
    return size.events;
  });
  expect(sizes).toEqual([8, 16, 32, 64, 128, 256]);
});

it('does not grow by calls that were smaller than allowed', () => {
  const size = new CallSize();
  for (let call = 0; call < 10; call++) size.note(results(1, 300));
  expect(size.events).toBe(4);
});

it('shrinks at once to a few MB of output, and never trusts a program again that made much of one event', () => {
  const size = new CallSize();
  for (let call = 0; call < 4; call++) size.note(results(size.events, 300));
  size.note(results(size.events, 3_200_000));
  expect(size.events).toBe(1);
  for (let call = 0; call < 20; call++) size.note(results(size.events, 300));
  expect(size.events).toBe(10);
});

it('counts a failure as a run without output', () => {
  const size = new CallSize();
  size.note(
    Array.from({ length: 4 }, () => ({
      ok: false,
      kind: 'threw',
      message: '',
      logs: [],
      durationMs: 0,
      loadMs: 0,
    })),
  );
  expect(size.events).toBe(8);
});

const LIMITS = DEFAULT_FAILURE_LIMITS;

function failingAfter(...batches: readonly (readonly RunFailure[])[]): boolean {
  const rate = batches.reduce((before, batch) => afterRuns(before, batch, LIMITS), NO_RUNS);
  return isFailing(rate, LIMITS);
}

function times(count: number, outcome: RunFailure): readonly RunFailure[] {
  return Array.from({ length: count }, () => outcome);
}

describe('failure rate', () => {
  it('is unknown before there were enough runs', () => {
    expect(failingAfter(times(19, 'threw'))).toBe(false);
    expect(failingAfter(times(20, 'threw'))).toBe(true);
  });

  it('needs more than half of the window', () => {
    expect(failingAfter(times(50, undefined), times(50, 'threw'))).toBe(false);
    expect(failingAfter(times(49, undefined), times(51, 'threw'))).toBe(true);
  });

  it('forgets runs older than the window', () => {
    expect(failingAfter(times(60, 'threw'), times(100, undefined))).toBe(false);
    expect(failingAfter(times(1_000, undefined), times(60, 'output'))).toBe(true);
  });

  it('needs five timeouts or memory kills in a row, also over batches', () => {
    expect(failingAfter(times(3, 'timeout'), times(1, 'memory'))).toBe(false);
    expect(failingAfter(times(3, 'timeout'), times(2, 'memory'))).toBe(true);
    expect(failingAfter(times(4, 'timeout'), [undefined], times(4, 'timeout'))).toBe(false);
    expect(failingAfter(times(4, 'timeout'), ['threw'], times(4, 'timeout'))).toBe(false);
  });

  it('five kills in the middle of a batch are seen although others of it went well', () => {
    expect(failingAfter([...times(5, 'timeout'), ...times(5, undefined)])).toBe(true);
  });
});

const EVENT: CanonicalEvent = {
  message_id: 'm1',
  type: 'identify',
  user_id: 'user-4711',
  traits: { email: 'ada@example.com', cards: [{ number: 4_111_111_111_111_111 }], plan: 'pro' },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:01.000Z',
  environment: 'production',
  workspace_id: 'w1',
};

it.each([
  ['no such user user-4711', 'no such user ***'],
  ['bad address ada@example.com!', 'bad address ***!'],
  ['card 4111111111111111 of ada@example.com', 'card *** of ***'],
  [
    `Unexpected token 'a', "ada@examp"... is not valid JSON`,
    `Unexpected token 'a', "***"... is not valid JSON`,
  ],
  [
    "Cannot read properties of undefined (reading 'total')",
    "Cannot read properties of undefined (reading 'total')",
  ],
  ['identify is not taken in production', 'identify is not taken in production'],
  ['the plan pro is over', 'the plan pro is over'],
  ['', ''],
])('%j becomes %j', (message, shown) => {
  expect(messageWithoutValues(message, EVENT)).toBe(shown);
});
