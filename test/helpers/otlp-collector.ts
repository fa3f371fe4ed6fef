import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { onLoopback } from './on-loopback.ts';

/** A span as OTLP/HTTP sends it in JSON. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly status?: { readonly code?: number };
  readonly attributes: readonly {
    readonly key: string;
    readonly value: Readonly<Record<string, unknown>>;
  }[];
}

interface Export {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly CollectedSpan[] }[];
  }[];
}

/** A collector of spans on this machine. */
export interface OtlpCollector {
  /** The variables of a process that exports to it, soon after spans end. */
  readonly environment: Readonly<Record<string, string>>;
  spansOf(traceId: string): readonly CollectedSpan[];
  /** All spans so far. */
  readonly spans: readonly CollectedSpan[];
  close(): Promise<void>;
}

export async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  const server = createServer(async (request, response) => {
    const { resourceSpans } = (await json(request)) as Export;
    spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const { url, close } = await onLoopback(server);
  return {
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    },
    spans,
    spansOf: (traceId) => spans.filter((span) => span.traceId === traceId),
    close,
  };
}

/** The spans from one of an id up to the first whose parent was not collected. */
export function ancestry(spans: readonly CollectedSpan[], spanId: string): readonly CollectedSpan[] {
  const span = spans.find((one) => one.spanId === spanId);
  if (span === undefined) return [];
  return [span, ...(span.parentSpanId === undefined ? [] : ancestry(spans, span.parentSpanId))];
}
