import {
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Span as TelemetrySpan,
  trace,
} from '@opentelemetry/api';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  RandomIdGenerator,
  type Sampler,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { isTraceparent, type Logger, type Span, type SpanAttributes, type Tracing } from '@tributary/core';
import { type LogContext, logContext } from '../log-context.ts';

/** The names of samplers in `OTEL_TRACES_SAMPLER`. */
export type SamplerName =
  | 'always_on'
  | 'always_off'
  | 'traceidratio'
  | 'parentbased_always_on'
  | 'parentbased_always_off'
  | 'parentbased_traceidratio';

export interface TracingOptions {
  /** `service.name`, unless `OTEL_RESOURCE_ATTRIBUTES` or `OTEL_SERVICE_NAME` of the process names another. */
  readonly serviceName: string;
  readonly version: string;
  readonly protocol: 'http/protobuf' | 'http/json';
  /** Where spans are sent. */
  readonly url: string;
  /** Headers of these requests, e.g. credentials. */
  readonly headers: Readonly<Record<string, string>>;
  readonly sampler: SamplerName;
  /** The sampled part of traces, for the samplers by ratio. */
  readonly ratio: number;
  /** How long spans wait for others before they are exported, ms. */
  readonly delayMs: number;
  readonly logger: Logger;
}

/** Tracing that is exported by OTLP. */
export interface ExportedTracing extends Tracing {
  /** Exports what has ended, as far as that is possible within two seconds. */
  close(): Promise<void>;
}

/** Spans that wait for their export at most; further ones are dropped. */
const MAX_QUEUE = 8_192;
const CLOSE_WITHIN_MS = 2_000;

const KINDS = {
  server: SpanKind.SERVER,
  consumer: SpanKind.CONSUMER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
} as const;

/**
 * Tracing by OpenTelemetry's SDK. Its provider is not registered globally: the libraries of this process that could trace
 * themselves (the driver of Elasticsearch) would record all their requests.
 */
export async function openTracing(options: TracingOptions): Promise<ExportedTracing> {
  const { serviceName, version, delayMs, logger } = options;
  reportFailures(logger);
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': serviceName, 'service.version': version }))
    .merge(detectResources({ detectors: [envDetector] }));
  const sampler = samplerOf(options);
  const ids = new RandomIdGenerator();
  let rootId: string | undefined;
  const provider = new TracerProvider({
    resource,
    sampler,
    idGenerator: {
      generateTraceId: () => rootId ?? ids.generateTraceId(),
      generateSpanId: () => ids.generateSpanId(),
    },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: await exporterOf(options),
        scheduledDelayMillis: delayMs,
        maxQueueSize: MAX_QUEUE,
      }),
    ],
  });
  const tracer = provider.getTracer('tributary', version);
  return {
    begin(name, { kind, parent, attributes = {} }) {
      const context = contextOf(parent);
      // Most traces begin here and are not sampled: to ask the sampler alone takes less than half of a span that is not recorded.
      if (context === ROOT_CONTEXT) {
        rootId = ids.generateTraceId();
        const { decision } = sampler.shouldSample(context, rootId, name, KINDS[kind], attributes, []);
        if (decision !== SamplingDecision.RECORD_AND_SAMPLED) return undefined;
      } else rootId = undefined;
      const span = tracer.startSpan(name, { kind: KINDS[kind], attributes }, context);
      return span.isRecording() ? new ExportedSpan(span) : undefined;
    },
    outside: (work) => logContext.run(undefined, work),
    async close() {
      const late = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_WITHIN_MS).unref());
      await Promise.race([provider.shutdown().catch(() => {}), late]);
    },
  };
}

class ExportedSpan implements Span {
  readonly #span: TelemetrySpan;
  readonly #logContext: LogContext;
  readonly traceparent: string;

  constructor(span: TelemetrySpan) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.#span = span;
    this.#logContext = { trace_id: traceId, span_id: spanId };
    this.traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
  }

  set(attributes: SpanAttributes): void {
    this.#span.setAttributes(attributes);
  }

  end(failure?: string): void {
    if (!this.#span.isRecording()) return;
    if (failure !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    this.#span.end();
  }

  within<T>(work: () => T): T {
    return logContext.run(this.#logContext, work);
  }
}

function contextOf(parent: string | undefined): Context {
  if (!isTraceparent(parent)) return ROOT_CONTEXT;
  const [, traceId = '', spanId = '', flags = ''] = parent.split('-');
  const traceFlags = Number.parseInt(flags, 16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

function samplerOf({ sampler, ratio }: Pick<TracingOptions, 'sampler' | 'ratio'>): Sampler {
  const roots: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  const root = roots[sampler.replace('parentbased_', '')]?.() ?? new AlwaysOnSampler();
  return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

async function exporterOf({ protocol, url, headers }: TracingOptions): Promise<SpanExporter> {
  if (protocol === 'http/json') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http');
    return new OTLPTraceExporter({ url, headers });
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter({ url, headers });
}

/** The SDK reports failed exports there, and nowhere else. */
function reportFailures(logger: Logger): void {
  const report = (...parts: readonly unknown[]) =>
    logger.warn(
      { error: parts.map(String).join(' ').slice(0, 500) },
      'spans could not be exported and are lost',
    );
  const nothing = () => {};
  diag.setLogger(
    { error: report, warn: report, info: nothing, debug: nothing, verbose: nothing },
    { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true },
  );
}
