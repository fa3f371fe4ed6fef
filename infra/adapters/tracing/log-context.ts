import { AsyncLocalStorage } from 'node:async_hooks';

/** The fields by which log lines name the span that they were written in. */
export interface LogContext {
  readonly trace_id: string;
  readonly span_id: string;
}

/** Empty while tracing is off. */
export const logContext = new AsyncLocalStorage<LogContext | undefined>();
