import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { Client } from './client.ts';
import { onLoopback } from './on-loopback.ts';

/** One call to a webhook. */
export interface WebhookCall {
  readonly at: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: WebhookBody;
}

export interface WebhookDelivery {
  readonly id: string;
  readonly type: string;
  readonly attempt: number;
  readonly rule_id: string;
  readonly destination_id: string;
  readonly event: Readonly<Record<string, unknown>> & { readonly message_id: string };
}

export type WebhookBody = WebhookDelivery & { readonly deliveries?: readonly WebhookDelivery[] };

/** A webhook's handling of a call; by default it answers 204. */
export type Behaviour = (call: WebhookCall, response: ServerResponse) => void;

/** A webhook on this machine that records its calls. */
export interface Webhook {
  readonly url: string;
  readonly calls: readonly WebhookCall[];
  /** Every delivery received, in order, including those in batches. */
  deliveries(): readonly WebhookDelivery[];
  behave(behaviour: Behaviour | undefined): void;
  close(): Promise<void>;
}

export async function startWebhook(initial?: Behaviour): Promise<Webhook> {
  const calls: WebhookCall[] = [];
  let behaviour = initial;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      const call = { at: Date.now(), headers: request.headers, text, body: JSON.parse(text) as WebhookBody };
      calls.push(call);
      if (behaviour === undefined) response.writeHead(204).end();
      else behaviour(call, response);
    });
  });
  const { url, close } = await onLoopback(server);
  return {
    url: `${url}/hook`,
    calls,
    deliveries: () => calls.flatMap(({ body }) => body.deliveries ?? [body]),
    behave(next) {
      behaviour = next;
    },
    close,
  };
}

/** The id of a new webhook destination with this URL. */
export async function destinationAt(owner: Client, url: string, fields: object = {}): Promise<string> {
  const body = { name: url, type: 'webhook', settings: { url }, ...fields };
  return (await owner.post<{ id: string }>('./destinations', body)).id;
}

/** Forwards every `track` event of the name, or every event, to a new webhook destination with this URL; returns its id. */
export async function forwardTo(
  owner: Client,
  url: string,
  eventName?: string,
  fields: object = {},
): Promise<string> {
  const id = await destinationAt(owner, url, fields);
  await forward(owner, eventName, id);
  return id;
}

/** Forwards every `track` event of the name, or every event, to a destination. */
export async function forward(
  owner: Client,
  eventName: string | undefined,
  destinationId: string,
): Promise<void> {
  await owner.post('./event-forwarding-rules', {
    name: `${eventName ?? 'all'} to ${destinationId}`,
    destination_id: destinationId,
    event_types: eventName === undefined ? [] : ['track'],
    event_names: eventName === undefined ? [] : [eventName],
    transformation_id: null,
    enabled: true,
  });
}

/** Webhooks of a test, closed together. */
export class Receivers {
  readonly #webhooks: Webhook[] = [];

  async open(behaviour?: Behaviour): Promise<Webhook> {
    const webhook = await startWebhook(behaviour);
    this.#webhooks.push(webhook);
    return webhook;
  }

  async close(): Promise<void> {
    for (const webhook of this.#webhooks.splice(0)) await webhook.close();
  }
}
