/** Attributes of a span by name. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanStart {
  readonly kind: 'server' | 'consumer' | 'client' | 'internal';
  /** The trace that the span continues, as a W3C `traceparent`; absent or invalid: a new one. */
  readonly parent?: string;
  readonly attributes?: SpanAttributes;
}

/** A sampled step of a trace. It is exported when it ends, and dropped where it never does. */
export interface Span {
  /** The W3C trace context by which another process continues the trace below this span. */
  readonly traceparent: string;
  set(attributes: SpanAttributes): void;
  /** `failure`: why the step failed. Only the first call counts. */
  end(failure?: string): void;
  /** Runs work whose log lines name this span, also those that it writes later. */
  within<T>(work: () => T): T;
}

/**
 * Records sampled steps of traces. Never throws and never waits: spans are dropped where they cannot be exported. Absent
 * where tracing is off, so that it costs nothing.
 */
export interface Tracing {
  /** Undefined where the trace is not sampled. */
  begin(name: string, start: SpanStart): Span | undefined;
  /** Runs work whose log lines name no span: work for several events, in the midst of that for one. */
  outside<T>(work: () => T): T;
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const SAMPLED = 1;

export function isTraceparent(text: unknown): text is string {
  return typeof text === 'string' && TRACEPARENT.test(text);
}

/** Whether a `traceparent` says that its trace is sampled. */
export function isSampled(traceparent: string | undefined): traceparent is string {
  return isTraceparent(traceparent) && (Number.parseInt(traceparent.slice(-2), 16) & SAMPLED) === SAMPLED;
}

/** The same trace context, as one that is not sampled. */
export function unsampled(traceparent: string): string {
  return `${traceparent.slice(0, -2)}00`;
}
