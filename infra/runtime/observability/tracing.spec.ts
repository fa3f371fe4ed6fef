import { type Logger, NO_LOGGER } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { logContext } from '../../adapters/tracing/log-context.ts';
import { type Environment, readConfig } from '../config/config.ts';
import { createLogger } from './logger.ts';
import { openConfiguredTracing, tracingIsOn } from './tracing.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };

async function openTracing(environment: Environment, logger: Logger = NO_LOGGER) {
  const tracing = await openConfiguredTracing(readConfig(environment), 'gateway', logger);
  if (tracing === undefined) throw new Error('tracing is off');
  onTestFinished(() => tracing.close());
  return tracing;
}

/** The part of new traces that is sampled, and whether those of producers are. */
async function sampled(environment: Environment) {
  const tracing = await openTracing({ ...ENDPOINT, ...environment });
  const begin = (parent?: string) =>
    tracing.begin('s', { kind: 'server', ...(parent === undefined ? {} : { parent }) }) !== undefined;
  const roots = Array.from({ length: 2_000 }, () => begin()).filter(Boolean).length / 2_000;
  const trace = `00-${'f'.repeat(8)}${'0'.repeat(24)}-${'b'.repeat(16)}`;
  return { roots, asked: begin(`${trace}-01`), notAsked: begin(`${trace}-00`) };
}

describe('tracing', () => {
  it.each([
    ['off by default', {}, false],
    ['on with an endpoint', ENDPOINT, true],
    ['on with an endpoint for spans', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c/x' }, true],
    ['on with an exporter', { OTEL_TRACES_EXPORTER: 'otlp' }, true],
    ['off with no exporter', { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, false],
    ['off with a disabled SDK', { ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }, false],
    ['off where nothing is sampled', { ...ENDPOINT, OTEL_TRACES_SAMPLER: 'always_off' }, false],
  ])('is %s', async (_, environment, expected) => {
    const config = readConfig(environment as Environment);
    expect(tracingIsOn(config)).toBe(expected);
    if (!expected) expect(await openConfiguredTracing(config, 'gateway', NO_LOGGER)).toBeUndefined();
  });

  it('samples as the standard variables say', async () => {
    expect(await sampled({})).toEqual({ roots: 1, asked: true, notAsked: false });
    const byRatio = { OTEL_TRACES_SAMPLER_ARG: '0.25' };
    const parentBased = await sampled({ ...byRatio, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio' });
    expect(parentBased).toMatchObject({ asked: true, notAsked: false });
    expect(parentBased.roots).toBeGreaterThan(0.2);
    expect(parentBased.roots).toBeLessThan(0.3);
    // The id of this trace is beyond the ratio.
    expect(await sampled({ ...byRatio, OTEL_TRACES_SAMPLER: 'traceidratio' })).toMatchObject({
      asked: false,
      notAsked: false,
    });
  });

  it('continues the trace of the parent, and names the span in log lines', async () => {
    const tracing = await openTracing(ENDPOINT);
    const parent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const span = tracing.begin('s', { kind: 'consumer', parent });
    const [, traceId, spanId, flags] = span?.traceparent.split('-') ?? [];
    expect({ traceId, flags }).toEqual({ traceId: 'a'.repeat(32), flags: '01' });
    expect(spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(spanId).not.toBe('b'.repeat(16));

    const lines: string[] = [];
    const logger = createLogger('info', {}, { write: (line) => void lines.push(line) });
    await span?.within(async () => {
      await Promise.resolve();
      logger.error({}, 'within');
      tracing.outside(() => logger.error({}, 'outside'));
    });
    logger.error({}, 'after');
    const named = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(named.map(({ message, trace_id, span_id }) => ({ message, trace_id, span_id }))).toEqual([
      { message: 'within', trace_id: traceId, span_id: spanId },
      { message: 'outside', trace_id: undefined, span_id: undefined },
      { message: 'after', trace_id: undefined, span_id: undefined },
    ]);
    expect(logContext.getStore()).toBeUndefined();
  });

  it('reports spans that a collector did not take, and closes all the same', async () => {
    const reported: string[] = [];
    const warn = (fields: object, message: string) => reported.push(`${message} ${JSON.stringify(fields)}`);
    const tracing = await openConfiguredTracing(
      readConfig({ ...ENDPOINT, OTEL_BSP_SCHEDULE_DELAY: '1' }),
      'gateway',
      {
        ...NO_LOGGER,
        warn,
      },
    );
    tracing?.begin('s', { kind: 'server' })?.end();
    await expect
      .poll(() => reported.join(), { timeout: 20_000 })
      .toMatch(/spans could not be exported and are lost/);
    const began = performance.now();
    await tracing?.close();
    expect(performance.now() - began).toBeLessThan(4_000);
  });

  it.each([
    [
      'OTEL_EXPORTER_OTLP_PROTOCOL',
      'grpc',
      /^OTEL_EXPORTER_OTLP_PROTOCOL must be one of http\/protobuf, http\/json$/m,
    ],
    ['OTEL_TRACES_SAMPLER_ARG', '2', /OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1/],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'hidden', /OTEL_EXPORTER_OTLP_HEADERS must be name=value/],
  ])('a wrong %s is one clear line', (name, value, message) => {
    expect(() => readConfig({ [name]: value })).toThrow(
      new RegExp(message.source.replace('^', '  ').replace('$', ''), 'm'),
    );
    expect(() => readConfig({ [name]: value })).not.toThrow('hidden');
  });
});
