import {
  type Batch,
  type BatchStage,
  defined,
  type FlowContext,
  type FlowStage,
  HEADER,
  isSampled,
  type LogEntry,
  messageOf,
  type OutputRecord,
  type Span,
  type Stage,
  type StageContext,
  type Tracing,
} from '@tributary/core';

/**
 * A stage with a span for each sampled entry. The entry that the stage gets carries the span as its `traceparent`, so that
 * records made from it, and the requests that deliver it, continue the trace below the span. Entries that are not sampled
 * are passed on as they are.
 */
export function traced(stage: Stage, tracing: Tracing): Stage {
  return stage.kind === 'batch' ? tracedBatch(stage, tracing) : tracedFlow(stage, tracing);
}

function tracedBatch(stage: BatchStage, tracing: Tracing): BatchStage {
  return {
    ...stage,
    async process(batch: Batch, context: StageContext) {
      if (!batch.entries.some(isTraced)) return stage.process(batch, context);
      const spans = batch.entries.map((entry) => beginSpan(tracing, stage.name, entry));
      const entries = batch.entries.map((entry, at) => withSpan(entry, spans[at]));
      let done = entries.length;
      const endBatch = context.endBatch?.bind(context);
      const counted: StageContext = {
        ...passedOn(context),
        ...(endBatch && {
          endBatch(count) {
            done = count;
            endBatch(count);
          },
        }),
      };
      try {
        const outputRecords = await stage.process({ ...batch, entries }, counted);
        // Entries behind the end of the batch are delivered again: their spans are dropped.
        for (const span of spans.slice(0, done)) span?.end();
        return outputRecords;
      } catch (thrown) {
        for (const span of spans) span?.end(messageOf(thrown));
        throw thrown;
      }
    },
  };
}

function tracedFlow(stage: FlowStage, tracing: Tracing): FlowStage {
  return {
    ...stage,
    handle(entry: LogEntry, context: FlowContext) {
      const span = isTraced(entry) ? beginSpan(tracing, stage.name, entry) : undefined;
      if (span === undefined) return stage.handle(entry, context);
      const failed = (thrown: unknown) => {
        span.end(messageOf(thrown));
        context.failed(thrown);
      };
      const observed: FlowContext = {
        ...passedOn(context),
        bytes: context.bytes,
        done(outputRecords) {
          span.set({ 'tributary.emitted': topicsOf(outputRecords) });
          span.end();
          // The log continues with other entries, in the same call.
          tracing.outside(() => context.done(outputRecords));
        },
        failed,
      };
      span.within(() => {
        try {
          stage.handle(withSpan(entry, span), observed);
        } catch (thrown) {
          failed(thrown);
        }
      });
      return undefined;
    },
  };
}

/** The members of a context, which may be those of a class. */
function passedOn(context: StageContext): StageContext {
  const { signal, stopping } = context;
  const room = context.room?.bind(context);
  const end = context.end?.bind(context);
  const count = context.count?.bind(context);
  return { signal, ...defined({ stopping, room, end, count }) };
}

function isTraced({ headers }: LogEntry): boolean {
  return isSampled(headers[HEADER.traceparent]);
}

function beginSpan(tracing: Tracing, stage: string, { headers, position }: LogEntry): Span | undefined {
  const parent = headers[HEADER.traceparent];
  if (!isSampled(parent)) return undefined;
  const { topic, partition, offset } = position;
  const { [HEADER.messageId]: messageId, [HEADER.workspaceId]: workspaceId } = headers;
  return tracing.begin(stage, {
    kind: 'consumer',
    parent,
    attributes: {
      'tributary.topic': topic,
      'tributary.partition': partition,
      'tributary.offset': offset,
      ...(messageId === undefined ? {} : { 'tributary.message_id': messageId }),
      ...(workspaceId === undefined ? {} : { 'tributary.workspace_id': workspaceId }),
    },
  });
}

function withSpan(entry: LogEntry, span: Span | undefined): LogEntry {
  if (span === undefined) return entry;
  return { ...entry, headers: { ...entry.headers, [HEADER.traceparent]: span.traceparent } };
}

function topicsOf(outputRecords: readonly OutputRecord[]): string {
  return [...new Set(outputRecords.map(({ topic }) => topic))].join(',');
}
