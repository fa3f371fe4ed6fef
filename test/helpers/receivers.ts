import type { Client } from './client.ts';
import { type Behaviour, startWebhook, type Webhook } from './webhook.ts';

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
