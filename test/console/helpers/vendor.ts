import { createServer } from 'node:http';
import { answering, onLoopback } from '../../helpers/on-loopback.ts';

/** A service that takes batches of events, as Klime does. */
export interface Vendor {
  readonly url: string;
  readonly events: readonly Readonly<Record<string, unknown>>[];
  close(): Promise<void>;
}

export async function startVendor(): Promise<Vendor> {
  const events: Readonly<Record<string, unknown>>[] = [];
  const server = createServer(
    answering(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += chunk;
      const { batch } = JSON.parse(text) as { readonly batch: typeof events };
      events.push(...batch);
      response.writeHead(202, { 'content-type': 'application/json' }).end('{"status": "queued"}');
    }),
  );
  return { ...(await onLoopback(server)), events };
}
