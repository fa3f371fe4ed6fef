import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Dice } from './dice.ts';

/** A webhook that sometimes answers 503 or hangs up, also after it accepted the deliveries. */
export interface FailingReceiver {
  readonly url: string;
  /** Ids of the deliveries received. */
  readonly ids: ReadonlySet<string>;
  /** Deliveries received, including repeats. */
  came(): number;
  close(): Promise<void>;
}

interface Body {
  readonly id: string;
  readonly deliveries?: readonly { readonly id: string }[];
}

export async function startFailingReceiver(dice: Dice): Promise<FailingReceiver> {
  const ids = new Set<string>();
  let came = 0;
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await textOf(request)) as Body;
    for (const { id } of body.deliveries ?? [body]) {
      came++;
      ids.add(id);
    }
    if (dice.falls(0.01)) request.socket.destroy();
    else response.writeHead(dice.falls(0.01) ? 503 : 204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/late`,
    ids,
    came: () => came,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
