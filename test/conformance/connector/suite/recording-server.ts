import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { answering, onLoopback } from '../../../helpers/on-loopback.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export type Answer = (response: ServerResponse, socket: Socket) => void;

/** An HTTP server on 127.0.0.1 that records its requests. */
export interface RecordingServer {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly RecordedRequest[];
  /** TCP connections so far, and those still open. */
  readonly connections: { taken: number; open: number };
  /** The behaviour on a complete request. Default: 204. */
  answer: Answer;
  close(): Promise<void>;
}

export const answerWith =
  (status: number, body = '', headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(status, headers).end(body);
  };

export async function startRecordingServer(): Promise<RecordingServer> {
  const requests: RecordedRequest[] = [];
  const connections = { taken: 0, open: 0 };
  const server = createServer(
    answering(async (request, response) => {
      const body = await bodyOf(request);
      const { method = '', url = '', headers, rawHeaders } = request;
      requests.push({ method, path: url, headers, rawHeaders, body });
      recording.answer(response, request.socket);
    }),
  );
  server.on('connection', (socket) => {
    connections.taken += 1;
    connections.open += 1;
    socket.on('close', () => {
      connections.open -= 1;
    });
  });
  const { url, close } = await onLoopback(server);
  const recording: RecordingServer = {
    url: `${url}/hook?key=in-the-query`,
    port: Number(new URL(url).port),
    requests,
    connections,
    answer: answerWith(204),
    close,
  };
  return recording;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
