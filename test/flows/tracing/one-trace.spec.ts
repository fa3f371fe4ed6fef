import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { answering, onLoopback } from '../../helpers/on-loopback.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const EVENT = 'Traced';
const RETRIES = { TRIBUTARY_RETRY_SCHEDULE: '1s', TRIBUTARY_RETRY_EXPIRY: '1m' };

/** The trace of a producer, with its own span as the parent. */
function producerSpan(flags: '00' | '01') {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

/** Sends every event of the workspace through a transformation to the webhook. */
async function forwardTo({ owner }: Tributary, webhook: Webhook): Promise<void> {
  // Writes are 503 while brokers elect leaders for new topics.
  const make = async (path: string, body: object) => {
    const answer = await eventually(
      () => owner.call<{ id: string }>('POST', path, body),
      ({ status }) => status !== 503,
    );
    expect(answer.status).toBe(201);
    return answer.body.id;
  };
  const example = { type: 'track', event: EVENT, user_id: 'u', properties: {} };
  const transformation_id = await make('./event-transformations', {
    name: 'as it is',
    source_code: 'function transform(event) { return event; }',
    test_input: example,
    test_output: example,
  });
  const destination_id = await make('./destinations', {
    name: 'hook',
    type: 'webhook',
    settings: { url: webhook.url },
  });
  await make('./event-forwarding-rules', {
    name: 'all',
    destination_id,
    event_types: [],
    event_names: [],
    transformation_id,
    enabled: true,
  });
}

async function send({ producer }: Tributary, traceparent?: string): Promise<string> {
  const { status, body } = await eventually(
    () =>
      producer.call<{ message_id: string }>(
        'POST',
        './events/track',
        { event: EVENT, user_id: 'ada' },
        traceparent === undefined ? {} : { traceparent },
      ),
    (answer) => answer.status !== 503,
  );
  expect(status).toBe(202);
  return body.message_id;
}

/** The trace contexts that the webhook got with an event, once it got it so often. */
async function received(
  webhook: Webhook,
  messageId: string,
  times = 1,
): Promise<readonly (string | undefined)[]> {
  const calls = await eventually(
    () => webhook.calls.filter(({ body }) => body.event?.message_id === messageId),
    (found) => found.length >= times,
  );
  return calls.map(({ headers }) => headers.traceparent as string | undefined);
}

/** One trace from the producer to the receiver, and nothing where it is not sampled. */
describe('Tracing', () => {
  let collector: OtlpCollector;
  let webhook: Webhook;
  let tributary: Tributary;
  beforeAll(async () => {
    collector = await startOtlpCollector();
    webhook = await startWebhook();
    tributary = await startTributary({ env: { ...RETRIES, ...collector.environment } });
    await forwardTo(tributary, webhook);
  });
  afterAll(async () => {
    await tributary?.remove();
    await webhook?.close();
    await collector?.close();
  });

  /**
   * The names of the spans from the receiver's parent up to the gateway's, and what that one is below. Without the slow
   * queues, through which a busy machine may send the event.
   */
  async function pathOf(traceparent: string | undefined) {
    const [, traceId = '', spanId = '', flags] = traceparent?.split('-') ?? [];
    expect(flags).toBe('01');
    const path = await eventually(
      () => ancestry(collector.spansOf(traceId), spanId),
      (found) => found.at(-1)?.name === 'ingest',
    );
    const names = path.map(({ name }) => name).filter((name) => !name.endsWith('.slow'));
    return { traceId, names, below: path.at(-1)?.parentSpanId };
  }

  it("leads from the producer's span through every stage to the receiver, also through a retry", async () => {
    webhook.behave((call, response) => response.writeHead(call.body.attempt === 1 ? 503 : 204).end());
    const producer = producerSpan('01');
    const [first, second] = await received(webhook, await send(tributary, producer.traceparent), 2);
    const ways = [await pathOf(first), await pathOf(second)];
    const upToRoute = ['route', 'validate', 'ingest'];
    expect(ways).toEqual([
      {
        traceId: producer.traceId,
        names: ['request webhook', 'deliver', ...upToRoute],
        below: producer.spanId,
      },
      {
        traceId: producer.traceId,
        names: ['request webhook', 'deliver.retry', 'deliver', ...upToRoute],
        below: producer.spanId,
      },
    ]);

    const spans = await eventually(
      () => collector.spansOf(producer.traceId),
      (found) => ['live', 'profile', 'transform'].every((name) => found.some((one) => one.name === name)),
    );
    const parentOf = (name: string) => {
      const parent = spans.find((one) => one.name === name)?.parentSpanId;
      return spans.find(({ spanId }) => spanId === parent)?.name.replace('.slow', '');
    };
    expect(['live', 'profile', 'route', 'transform'].map(parentOf)).toEqual([
      'validate',
      'validate',
      'validate',
      'route',
    ]);
    const requests = spans.filter(({ name }) => name === 'request webhook');
    expect(requests.map(({ status }) => status?.code ?? 0).sort()).toEqual([0, 2]);
  });

  it('records nothing of an event that its producer did not sample, and sends the receiver nothing', async () => {
    webhook.behave(undefined);
    const producer = producerSpan('00');
    expect(await received(webhook, await send(tributary, producer.traceparent))).toEqual([undefined]);
    const marker = producerSpan('01');
    await received(webhook, await send(tributary, marker.traceparent));
    await eventually(
      () => collector.spansOf(marker.traceId),
      (found) => found.some(({ name }) => name === 'request webhook'),
    );
    expect(collector.spansOf(producer.traceId)).toEqual([]);
  });

  it('continues after all processes were killed between two attempts', async () => {
    webhook.behave((_call, response) => response.writeHead(503).end());
    const producer = producerSpan('01');
    const messageId = await send(tributary, producer.traceparent);
    await received(webhook, messageId);
    // Each thread of a process exports its own spans, and those that it holds die with it.
    await eventually(
      () => collector.spansOf(producer.traceId),
      (found) =>
        ['ingest', 'validate', 'route', 'deliver'].every((name) => found.some((one) => one.name === name)),
    );
    // Where the first attempt is not committed, it is made once more instead of a second one.
    await eventually(
      () => tributary.owner.get<readonly { message_id: string }[]>('./deliveries?status=retrying'),
      (retrying) => retrying.some(({ message_id }) => message_id === messageId),
    );
    await tributary.kill();
    const attemptsBefore = webhook.calls.length;
    webhook.behave(undefined);
    const { folder } = tributary;
    tributary = await startTributary({ folder, env: { ...RETRIES, ...collector.environment } });
    await eventually(
      () => webhook.calls.length,
      (calls) => calls > attemptsBefore,
    );
    const contexts = await received(webhook, messageId, 2);
    const { traceId, names, below } = await pathOf(contexts.at(-1));
    expect(traceId).toBe(producer.traceId);
    expect(names.slice(-4)).toEqual(['deliver', 'route', 'validate', 'ingest']);
    expect(names.slice(0, 2)).toEqual(['request webhook', 'deliver.retry']);
    expect(below).toBe(producer.spanId);
  });
});

/** A span as OTLP/HTTP sends it in JSON. */
interface CollectedSpan {
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
interface OtlpCollector {
  /** The variables of a process that exports to it, soon after spans end. */
  readonly environment: Readonly<Record<string, string>>;
  spansOf(traceId: string): readonly CollectedSpan[];
  /** All spans so far. */
  readonly spans: readonly CollectedSpan[];
  close(): Promise<void>;
}

async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  const server = createServer(
    answering(async (request, response) => {
      const { resourceSpans } = (await json(request)) as Export;
      spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    }),
  );
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
function ancestry(spans: readonly CollectedSpan[], spanId: string): readonly CollectedSpan[] {
  const span = spans.find((one) => one.spanId === spanId);
  if (span === undefined) return [];
  return [span, ...(span.parentSpanId === undefined ? [] : ancestry(spans, span.parentSpanId))];
}
