import type { Tributary } from './tributary.ts';
import { type Behaviour, startWebhook, type Webhook } from './webhook.ts';

/** Webhooks of a test as destinations of its workspace. */
export class Receivers {
  readonly #webhooks: Webhook[] = [];

  async open(behaviour?: Behaviour): Promise<Webhook> {
    const webhook = await startWebhook(behaviour);
    this.#webhooks.push(webhook);
    return webhook;
  }

  /** The id of a destination with this URL. */
  async destinationAt(
    { owner }: Pick<Tributary, 'owner'>,
    url: string,
    limits: object = {},
  ): Promise<string> {
    const body = { name: url, type: 'webhook', settings: { url }, ...limits };
    return (await owner.post<{ id: string }>('./destinations', body)).id;
  }

  /** Forwards every `track` event of the name to the destination. */
  async forward(
    { owner }: Pick<Tributary, 'owner'>,
    eventName: string,
    destinationId: string,
  ): Promise<void> {
    await owner.post('./event-forwarding-rules', {
      name: `${eventName} to ${destinationId}`,
      destination_id: destinationId,
      event_types: ['track'],
      event_names: [eventName],
      transformation_id: null,
      enabled: true,
    });
  }

  async close(): Promise<void> {
    for (const webhook of this.#webhooks.splice(0)) await webhook.close();
  }
}
