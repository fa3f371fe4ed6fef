import { createServer } from 'node:http';
import { onLoopback } from './on-loopback.ts';
import type { WebhookBody, WebhookDelivery } from './webhook.ts';

/** Identifies one attempt of a delivery. */
export interface Brought {
  readonly id: string;
  readonly messageId: string;
  readonly attempt: number;
  /** The Standard Webhooks id of its call: for a single delivery, the delivery's own id. */
  readonly callId: string;
  /** When the call was read, epoch ms. */
  readonly at: number;
}

/** A webhook that keeps so little of a call that a test can hold a hundred thousand of them. */
export interface Recorder {
  readonly url: string;
  /** In order of arrival. */
  readonly brought: readonly Brought[];
  close(): Promise<void>;
}

/** Answers every call with this status, each after a random delay of at most `delayMs`. */
export async function startRecorder(status: number, delayMs = 0): Promise<Recorder> {
  const brought: Brought[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const at = Date.now();
      const callId = String(request.headers['webhook-id']);
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as WebhookBody;
      const deliveries: readonly WebhookDelivery[] = body.deliveries ?? [body];
      for (const { id, attempt, event } of deliveries)
        brought.push({ id, messageId: event.message_id, attempt, callId, at });
      const answer = () => void response.writeHead(status).end();
      if (delayMs === 0) answer();
      else setTimeout(answer, Math.random() * delayMs);
    });
  });
  const { url, close } = await onLoopback(server);
  return { url: `${url}/hook`, brought, close };
}
