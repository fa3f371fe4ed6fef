import { type ConnectorDestination, nameId } from '@tributary/core';
import { deliveryBody } from '../delivery-body.ts';
import type { HttpRequest } from '../http/exchange.ts';
import manifest from '../package.json' with { type: 'json' };
import type { Part } from '../parts.ts';
import { signatureOf } from './secret.ts';
import type { WebhookSettings } from './settings.ts';

const USER_AGENT = `tributary/${manifest.version}`;

/** The signed request for some deliveries. `now` is epoch ms and becomes the signed timestamp. */
export function composeMessage(settings: WebhookSettings, deliveries: Part, now: number): HttpRequest {
  const batch = settings.batchSize > 1;
  const id = batch ? nameId(...deliveries.map((delivery) => delivery.id)) : deliveries[0].id;
  const body = JSON.stringify(
    batch ? { type: 'batch', deliveries: deliveries.map(deliveryBody) } : deliveryBody(deliveries[0]),
  );
  const message = signed(settings, id, body, now);
  const replays = new Set(deliveries.map((delivery) => delivery.replay));
  const [replay] = replays;
  if (replay !== undefined && replays.size === 1) message.headers.push('tributary-replay', replay);
  return message;
}

/** The signed request of a connection test, `id` being its own. */
export function composeTest(
  settings: WebhookSettings,
  id: string,
  { id: destination_id, workspaceId: workspace_id }: ConnectorDestination,
  now: number,
): HttpRequest {
  return signed(settings, id, JSON.stringify({ id, type: 'test', workspace_id, destination_id }), now);
}

function signed(settings: WebhookSettings, id: string, body: string, now: number): HttpRequest {
  const headers = new Map([['user-agent', USER_AGENT]]);
  for (const [name, value] of settings.headers) headers.set(name.toLowerCase(), value);
  headers.set('content-type', 'application/json');
  headers.set('idempotency-key', id);
  headers.set('webhook-id', id);
  const timestamp = String(Math.floor(now / 1_000));
  headers.set('webhook-timestamp', timestamp);
  headers.set('webhook-signature', signatureOf(settings.secret, `${id}.${timestamp}.${body}`));
  return { method: 'POST', url: settings.url, headers: [...headers].flat(), body };
}
