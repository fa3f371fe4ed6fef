import type { Readable } from 'node:stream';
import { NodeHttpHandler, type NodeHttpHandlerOptions } from '@smithy/node-http-handler';

/** Of the body of an answer; what says why an object is not taken stands at its beginning. */
const MAX_BODY_BYTES = 16 * 1_024;

/**
 * Hands the S3 client answers whose bodies are bounded and made here: nothing, or an error with the code that the service
 * gave. What a hostile service sends is neither kept nor parsed as XML. The status stands, however the body ends.
 */
export class AnsweredHandler extends NodeHttpHandler {
  constructor(options: NodeHttpHandlerOptions) {
    super(options);
  }

  override async handle(...[request, options]: Parameters<NodeHttpHandler['handle']>) {
    const answered = await super.handle(request, options);
    const { response } = answered;
    const start = await startOf(response.body, options?.abortSignal);
    response.body = response.statusCode < 300 ? new Uint8Array() : Buffer.from(errorDocument(start));
    return answered;
  }
}

type Aborting = NonNullable<Parameters<NodeHttpHandler['handle']>[1]>['abortSignal'];

/** The start of a body; the connection of a longer one ends. */
async function startOf(body: Readable, signal: Aborting): Promise<Buffer> {
  const leave = () => void body.destroy();
  const onAbort = signal !== undefined && 'addEventListener' in signal ? signal : undefined;
  onAbort?.addEventListener('abort', leave);
  const chunks: Buffer[] = [];
  let read = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      read += chunk.length;
      // Leaving the loop destroys the body.
      if (read > MAX_BODY_BYTES) break;
    }
  } catch {
    // A body that breaks off: the status line stands.
  } finally {
    onAbort?.removeEventListener('abort', leave);
  }
  return Buffer.concat(chunks).subarray(0, MAX_BODY_BYTES);
}

function errorDocument(start: Buffer): string {
  const [, code] = /<Code>([A-Za-z]{3,60})<\/Code>/.exec(start.toString('latin1')) ?? [];
  return code === undefined ? '' : `<Error><Code>${code}</Code></Error>`;
}
