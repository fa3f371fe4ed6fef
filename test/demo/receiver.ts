import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { dirname } from 'node:path';
import { answering, onLoopback } from '../helpers/on-loopback.ts';

/** A request to the webhook. */
export interface ReceivedDelivery {
  readonly id: string;
  readonly event: { readonly message_id: string; readonly properties?: Readonly<Record<string, unknown>> };
}

/** A webhook on this machine that records its deliveries, of all runs, in a file. */
export interface Receiver {
  readonly url: string;
  /** Each delivery once, by its id, including earlier runs. */
  readonly deliveries: ReadonlyMap<string, ReceivedDelivery>;
  close(): Promise<void>;
}

export async function startReceiver(file: string): Promise<Receiver> {
  mkdirSync(dirname(file), { recursive: true });
  const deliveries = new Map<string, ReceivedDelivery>();
  if (existsSync(file)) {
    // A killed demo may leave a torn last line. Its delivery was never answered, so it is delivered again.
    const lines = readFileSync(file, 'utf8').split('\n');
    for (const line of lines.slice(0, -1)) remember(JSON.parse(line));
    truncateSync(file, Buffer.byteLength(lines.slice(0, -1).join('\n')) + (lines.length > 1 ? 1 : 0));
  }
  function remember(delivery: ReceivedDelivery): boolean {
    if (deliveries.has(delivery.id)) return false;
    deliveries.set(delivery.id, delivery);
    return true;
  }

  const server = createServer(
    answering(async (request, response) => {
      const body = JSON.parse(await textOf(request)) as
        | ReceivedDelivery
        | { deliveries: readonly ReceivedDelivery[] };
      for (const delivery of 'deliveries' in body ? body.deliveries : [body]) {
        if (remember(delivery)) appendFileSync(file, `${JSON.stringify(delivery)}\n`);
      }
      response.writeHead(204).end();
    }),
  );
  const { url, close } = await onLoopback(server);
  return {
    url: `${url}/late`,
    deliveries,
    close,
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
