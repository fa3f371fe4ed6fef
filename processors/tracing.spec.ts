import {
  type BatchStage,
  type FlowStage,
  HEADER,
  type LogEntry,
  runFlowStage,
  type Span,
  type Tracing,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { traced } from './tracing.ts';

const context = { signal: new AbortController().signal };

function entry(offset: number, traceparent?: string): LogEntry {
  return {
    key: 'k',
    value: '{}',
    headers: traceparent === undefined ? {} : { [HEADER.traceparent]: traceparent },
    position: { topic: 't', partition: 0, offset, index: 0 },
    timestamp: 0,
  };
}

const sampled = (n: number) => `00-${'a'.repeat(32)}-${String(n).padStart(16, '0')}-01`;
const NOT_SAMPLED = `00-${'a'.repeat(32)}-${'c'.repeat(16)}-00`;

/** Records the ends of spans by their parents. */
function recorder() {
  const ended: [parent: string | undefined, failure: string | undefined][] = [];
  const tracing: Tracing = {
    begin: (name, { parent }): Span => ({
      traceparent: `${name} below ${parent}`,
      set() {},
      end: (failure) => void ended.push([parent, failure]),
      within: (work) => work(),
    }),
    outside: (work) => work(),
  };
  return { tracing, ended };
}

const base = { name: 'stage', reads: [{ topic: 't' }], writes: ['out'] };

function batchStage(process: BatchStage['process']): BatchStage {
  return { ...base, kind: 'batch', process };
}

describe('a traced batch stage', () => {
  it('gets the span of each sampled entry, and the others as they are', async () => {
    const { tracing, ended } = recorder();
    const seen: (string | undefined)[] = [];
    const stage = traced(
      batchStage(async ({ entries }) => {
        seen.push(...entries.map(({ headers }) => headers[HEADER.traceparent]));
        return [];
      }),
      tracing,
    ) as BatchStage;
    const entries = [entry(0), entry(1, sampled(1)), entry(2, NOT_SAMPLED), entry(3, sampled(3))];
    await stage.process({ topic: 't', partition: 0, entries }, context);
    expect(seen).toEqual([undefined, `stage below ${sampled(1)}`, NOT_SAMPLED, `stage below ${sampled(3)}`]);
    expect(ended).toEqual([
      [sampled(1), undefined],
      [sampled(3), undefined],
    ]);
  });

  it('gets a batch without a sampled entry untouched', async () => {
    const { tracing } = recorder();
    const batch = { topic: 't', partition: 0, entries: [entry(0), entry(1, NOT_SAMPLED)] };
    const got: unknown[] = [];
    const process: BatchStage['process'] = async (...given) => {
      got.push(...given);
      return [];
    };
    const stage = traced(batchStage(process), tracing) as BatchStage;
    await stage.process(batch, context);
    expect(got[0]).toBe(batch);
    expect(got[1]).toBe(context);
  });

  it('drops the spans behind an early end of the batch, whose entries are read again', async () => {
    const { tracing, ended } = recorder();
    const ends: number[] = [];
    const stage = traced(
      batchStage(async (_batch, { endBatch }) => {
        endBatch?.(1);
        return [];
      }),
      tracing,
    ) as BatchStage;
    const entries = [entry(0, sampled(0)), entry(1, sampled(1))];
    const counted = { ...context, endBatch: (count: number) => void ends.push(count) };
    await stage.process({ topic: 't', partition: 0, entries }, counted);
    expect(ends).toEqual([1]);
    expect(ended).toEqual([[sampled(0), undefined]]);
  });

  it('throws the error of the stage, with the reason on the spans', async () => {
    const { tracing, ended } = recorder();
    const failure = new Unavailable('Kafka is down');
    const stage = traced(
      batchStage(() => Promise.reject(failure)),
      tracing,
    ) as BatchStage;
    const batch = { topic: 't', partition: 0, entries: [entry(0, sampled(0))] };
    await expect(stage.process(batch, context)).rejects.toBe(failure);
    expect(ended).toEqual([[sampled(0), 'Kafka is down']]);
  });
});

describe('a traced flow stage', () => {
  const flowStage = (handle: FlowStage['handle']): FlowStage => ({
    ...base,
    kind: 'flow',
    windowBytes: 1,
    handle,
  });

  it('gets its span, and a context whose members may be those of a class', async () => {
    const { tracing, ended } = recorder();
    class Context {
      readonly #signal = context.signal;
      get signal() {
        return this.#signal;
      }
      room() {
        this.#signal.throwIfAborted();
        return undefined;
      }
    }
    const stage = traced(
      flowStage(({ headers }, { room, signal, done }) => {
        expect(room?.()).toBeUndefined();
        expect(signal).toBe(context.signal);
        done([{ topic: 'out', key: 'k', value: '', headers }]);
      }),
      tracing,
    ) as FlowStage;
    const given = new Context();
    const outputRecords = await new Promise((done, failed) => {
      stage.handle(entry(0, sampled(0)), Object.assign(given, { bytes: 2, done, failed }));
    });
    expect(outputRecords).toEqual([
      expect.objectContaining({ headers: { [HEADER.traceparent]: `stage below ${sampled(0)}` } }),
    ]);
    expect(ended).toEqual([[sampled(0), undefined]]);
  });

  it('passes a throw on as a failure', async () => {
    const { tracing, ended } = recorder();
    const stage = traced(
      flowStage(() => {
        throw new Error('a bug');
      }),
      tracing,
    ) as FlowStage;
    await expect(runFlowStage(stage, entry(0, sampled(0)), context)).rejects.toThrow('a bug');
    expect(ended).toEqual([[sampled(0), 'a bug']]);
  });
});
