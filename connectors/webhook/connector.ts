import { type Connector, type ConnectorDestination, nameId, newId } from '@tributary/core';
import type { Agent } from 'undici';
import { type ConnectorCall, createClientConnector } from '../client/client-connector.ts';
import { type Part, type PartResult, sendInParts } from '../client/partial-batches.ts';
import { deliveryJson } from '../delivery-body.ts';
import { testResultOf } from '../failures.ts';
import { type HttpRequest, httpClient, sendRequest } from '../http/client.ts';
import { classifyResponse, excerptOf, mayConcernSome, secretTexts } from '../http/response.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import manifest from '../package.json' with { type: 'json' };
import { memoizeByObject } from '../settings.ts';
import { signatureOf } from './secrets.ts';
import { description, readSettings, type WebhookSettings } from './settings.ts';

export const webhook: ConnectorKind = { description, create: createWebhookConnector };

const secretsOf = memoizeByObject((settings: WebhookSettings) => [
  ...settings.previous.map(({ secret }) => secret),
  ...secretTexts(settings),
]);

function createWebhookConnector(context: ConnectorContext): Connector {
  const { clock } = context;

  const send = async (
    agent: Agent,
    settings: WebhookSettings,
    compose: () => HttpRequest,
    { deadline, failed }: ConnectorCall,
  ): Promise<PartResult> => {
    try {
      deadline.throwIfAborted();
      const { status, retryAfter, start } = await sendRequest(agent, compose(), deadline);
      const excerpt = excerptOf(start, secretsOf(settings));
      const result = classifyResponse({ status, retryAfter, excerpt }, clock());
      return { result, mayBeSplit: mayConcernSome(result) };
    } catch (error) {
      return { result: failed(error), mayBeSplit: false };
    }
  };

  return createClientConnector<WebhookSettings, Agent>(context, {
    readSettings,
    limits: ({ batchSize }) => ({ events: batchSize }),
    ...httpClient(context),

    send: (agent, settings, batch, call) =>
      sendInParts(batch, {
        send: (part) => {
          const traceparent = part.map(call.traceparentOf).find((context) => context !== undefined);
          return send(agent, settings, () => composeMessage(settings, part, clock(), traceparent), call);
        },
        hasTimeToHalve: call.hasTimeToHalve,
      }),

    async test(agent, settings, call) {
      const message = composeTest(settings, newId(), call.destination, clock());
      const { result } = await send(agent, settings, () => message, call);
      return { ...testResultOf(result), request: requestText(message, settings) };
    },
  });
}

const USER_AGENT = `tributary/${manifest.version}`;

/**
 * The signed request of some deliveries. `now` is epoch ms and becomes the signed timestamp. A request of several
 * deliveries continues the trace of the first that is sampled.
 */
export function composeMessage(
  settings: WebhookSettings,
  deliveries: Part,
  now: number,
  traceparent?: string,
): HttpRequest {
  const batch = settings.batchSize > 1;
  const id = batch ? nameId(...deliveries.map((delivery) => delivery.id)) : deliveries[0].id;
  const body = batch
    ? `{"type":"batch","deliveries":[${deliveries.map(deliveryJson).join(',')}]}`
    : deliveryJson(deliveries[0]);
  const message = signed(settings, id, body, now);
  const { replay } = deliveries[0];
  if (replay !== undefined && deliveries.every((delivery) => delivery.replay === replay))
    message.headers.push('tributary-replay', replay);
  // A header of the settings goes before.
  if (traceparent !== undefined && !message.headers.includes('traceparent'))
    message.headers.push('traceparent', traceparent);
  return message;
}

/** The signed request of a connection test with its own `id`. */
function composeTest(
  settings: WebhookSettings,
  id: string,
  { id: destination_id, workspaceId: workspace_id }: ConnectorDestination,
  now: number,
): HttpRequest {
  return signed(settings, id, JSON.stringify({ id, type: 'test', workspace_id, destination_id }), now);
}

function signed(settings: WebhookSettings, id: string, text: string, now: number): HttpRequest {
  const body = Buffer.from(text);
  const timestamp = String(Math.floor(now / 1_000));
  const signing = [
    settings.key,
    ...settings.previous.filter(({ until }) => until > now).map(({ key }) => key),
  ];
  // The current secret's signature first, then those of replaced secrets: a receiver accepts any.
  const signature = signing.map((key) => signatureOf(key, `${id}.${timestamp}.`, body)).join(' ');
  const own = ['idempotency-key', id, 'webhook-id', id, 'webhook-timestamp', timestamp];
  const headers = [...standingHeaders(settings), ...own, 'webhook-signature', signature];
  return { method: 'POST', url: settings.url, headers, body };
}

const MASKED = '********';

/** A request as text for people. The values of the headers that the settings state are masked: they are secret. */
function requestText(
  { method, url, headers, body = '' }: HttpRequest,
  { headers: stated }: Pick<WebhookSettings, 'headers'>,
): string {
  const secret = new Set(stated.map(([name]) => name.toLowerCase()));
  const lines = [`${method} ${url.href}`];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    lines.push(`${name}: ${secret.has(name) && name !== 'content-type' ? MASKED : headers[at + 1]}`);
  }
  return [...lines, '', Buffer.from(body).toString()].join('\n');
}

/** The headers of all messages to a destination; its settings may replace the user agent. */
const standingHeaders = memoizeByObject(({ headers }: WebhookSettings): readonly string[] => {
  const standing = new Map([['user-agent', USER_AGENT]]);
  for (const [name, value] of headers) standing.set(name.toLowerCase(), value);
  standing.set('content-type', 'application/json');
  return [...standing].flat();
});
