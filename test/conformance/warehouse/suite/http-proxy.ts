import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { onLoopback } from '../../../helpers/on-loopback.ts';

/** What becomes of a request: it is answered, its answer is lost or is 503 although it was carried out, or it never arrives. */
export type Fate = 'answered' | 'lost' | '503' | 'refused';

/** Bytes that stand for one request, in `cutAfter`. */
const BYTES_OF_REQUEST = 300;

/** A proxy in front of an HTTP server; `around` may answer a request itself instead of passing it on. */
export async function startHttpProxy(
  target: string,
  around: (
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    pass: () => Promise<void>,
  ) => Promise<void> = (_incoming, _outgoing, pass) => pass(),
) {
  const { hostname: host, port } = new URL(target);
  let isDown = false;
  let requestsLeft = Number.POSITIVE_INFINITY;
  let fateOf: (method: string, path: string, incoming: IncomingMessage) => Fate = () => 'answered';

  async function pass(incoming: IncomingMessage, outgoing: ServerResponse, fate: Fate): Promise<void> {
    const { url: path, method, headers } = incoming;
    const passed = request({ host, port, path, method, headers });
    incoming.on('close', () => {
      if (!incoming.complete) passed.destroy();
    });
    incoming.pipe(passed);
    const [response] = (await once(passed, 'response')) as [IncomingMessage];
    if (fate === 'answered') {
      outgoing.writeHead(response.statusCode ?? 500, response.headers);
      return pipeline(response, outgoing);
    }
    response.resume();
    await once(response, 'end');
    if (fate === '503') outgoing.writeHead(503).end();
    else outgoing.destroy();
  }

  const server = createServer((incoming, outgoing) => {
    const { url = '', method = '' } = incoming;
    requestsLeft -= 1;
    const isCut = requestsLeft < 0;
    if (isCut) requestsLeft = Number.POSITIVE_INFINITY;
    // Half of the requests that are cut still arrive.
    const cut = url.length % 2 === 0 ? 'refused' : 'lost';
    const fate = isDown ? 'refused' : isCut ? cut : fateOf(method, url, incoming);
    if (fate === 'refused') return void incoming.socket.destroy();
    around(incoming, outgoing, () => pass(incoming, outgoing, fate)).catch(() => outgoing.destroy());
  });
  return {
    ...(await onLoopback(server)),
    /** Decides about the requests from then on. */
    decide(next: typeof fateOf) {
      fateOf = next;
    },
    /** Those of a harness. */
    faults: {
      cutAfter(bytes: number) {
        requestsLeft = Math.floor(bytes / BYTES_OF_REQUEST);
      },
      async fail() {
        isDown = true;
      },
      async mend() {
        isDown = false;
      },
    },
  };
}
