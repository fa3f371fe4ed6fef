import { flag, list, number, oneOf, optional, type Parsed, secret, setting, text } from './setting.ts';

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

/** The standard variables of OpenTelemetry that Tributary knows. Without an endpoint or an exporter tracing is off. */
export const TRACING_SETTINGS = {
  tracesExporter: setting(
    'OTEL_TRACES_EXPORTER',
    '',
    optional(oneOf(['otlp', 'none'])),
    'With otlp, spans of sampled events are exported, by default to http://localhost:4318; with none they are not. Default: otlp where an endpoint is set, else none.',
  ),
  otlpEndpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    '',
    optional(endpoint()),
    'Address of an OTLP collector, e.g. http://collector:4318; /v1/traces is added to it.',
  ),
  otlpTracesEndpoint: setting(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    '',
    optional(endpoint()),
    'Address that spans are sent to, as it is.',
  ),
  otlpProtocol: setting(
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    'http/protobuf',
    oneOf(['http/protobuf', 'http/json']),
    'Encoding of the spans. grpc is not supported.',
  ),
  otlpHeaders: secret(
    'OTEL_EXPORTER_OTLP_HEADERS',
    headers(),
    'Headers for the collector, as name=value,... with URL-encoded values.',
  ),
  tracesSampler: setting(
    'OTEL_TRACES_SAMPLER',
    'parentbased_always_on',
    oneOf(SAMPLERS),
    'Which events are traced. The parentbased samplers follow the producer where it sent a traceparent.',
  ),
  tracesSamplerRatio: setting(
    'OTEL_TRACES_SAMPLER_ARG',
    '1',
    ratio(),
    'The traced part of events, for the samplers by ratio: 0.01 traces one of a hundred.',
  ),
  spanDelay: setting(
    'OTEL_BSP_SCHEDULE_DELAY',
    '5000',
    number(1, 600_000),
    'How long spans wait for others before they are exported, ms.',
  ),
  otelDisabled: setting('OTEL_SDK_DISABLED', 'false', flag(), 'With true, tracing is off in any case.'),
  serviceName: setting(
    'OTEL_SERVICE_NAME',
    '',
    optional(text()),
    'Name of the service on spans; default: tributary-gateway or tributary-processor. OTEL_RESOURCE_ATTRIBUTES adds attributes.',
  ),
} as const;

function endpoint(): (value: string) => Parsed<string> {
  return (value) =>
    URL.canParse(value) && /^https?:$/.test(new URL(value).protocol)
      ? { ok: true, value }
      : { ok: false, message: 'must be an http:// or https:// URL' };
}

function ratio(): (value: string) => Parsed<number> {
  return (value) =>
    /^\d(\.\d{1,12})?$/.test(value) && Number(value) <= 1
      ? { ok: true, value: Number(value) }
      : { ok: false, message: 'must be a number from 0 to 1' };
}

/** The message never contains the value, which may hold credentials. */
function headers(): (value: string) => Parsed<Readonly<Record<string, string>>> {
  const pairs = list();
  return (value) => {
    const parsed = pairs(value);
    if (!parsed.ok) return parsed;
    const found: Record<string, string> = {};
    for (const pair of parsed.value) {
      const [, name, encoded] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=(.*)$/.exec(pair) ?? [];
      const decoded = encoded === undefined ? undefined : decodedOf(encoded.trim());
      if (name === undefined || decoded === undefined)
        return { ok: false, message: 'must be name=value,... with URL-encoded values' };
      found[name] = decoded;
    }
    return { ok: true, value: found };
  };
}

function decodedOf(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
