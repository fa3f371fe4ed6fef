import type { Logger } from '@tributary/core';
import type { ExportedTracing } from '../../adapters/tracing/opentelemetry/index.ts';
import manifest from '../../package.json' with { type: 'json' };
import type { TRACING_SETTINGS } from '../config/engine-settings.ts';
import type { Config } from '../config/settings.ts';

type TracingConfig = Pick<Config, Exclude<keyof typeof TRACING_SETTINGS, 'serviceName'>>;

const DEFAULT_ENDPOINT = 'http://localhost:4318';

/** Whether spans are exported: an endpoint or the exporter is set. */
export function tracingIsOn(config: TracingConfig): boolean {
  const { tracesExporter, otlpEndpoint, otlpTracesEndpoint, otelDisabled, tracesSampler } = config;
  if (otelDisabled || tracesExporter === 'none' || tracesSampler === 'always_off') return false;
  return tracesExporter === 'otlp' || otlpEndpoint !== undefined || otlpTracesEndpoint !== undefined;
}

/** The tracing of a part of this process; undefined while it is off, and then no library is loaded for it. */
export async function openConfiguredTracing(
  config: TracingConfig,
  part: 'gateway' | 'processor',
  logger: Logger,
): Promise<ExportedTracing | undefined> {
  if (!tracingIsOn(config)) return undefined;
  const { openTracing } = await import('../../adapters/tracing/opentelemetry/index.ts');
  return openTracing({
    serviceName: `tributary-${part}`,
    version: manifest.version,
    protocol: config.otlpProtocol,
    url:
      config.otlpTracesEndpoint ??
      `${(config.otlpEndpoint ?? DEFAULT_ENDPOINT).replace(/\/+$/, '')}/v1/traces`,
    headers: config.otlpHeaders,
    sampler: config.tracesSampler,
    ratio: config.tracesSamplerRatio,
    delayMs: config.spanDelay,
    logger,
  });
}
