import { type Dispatcher, request } from 'undici';
import { ANNOUNCED_STATUS } from '../egress/answer-heads.ts';
import type { HttpAnswer, HttpSent } from './messages.ts';

/** Bytes of an answer that the pack is given at most. */
const MAX_ANSWER_BYTES = 64 * 1_024;

/** Headers that speak about the connection or the framing, which the HTTP client alone decides. */
const TRANSPORT = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'transfer-encoding',
  'expect',
  'upgrade',
]);

/** Sends a request of the pack. Redirects are not followed. */
export async function sendFor(
  dispatcher: Dispatcher,
  sent: HttpSent,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  let announced: number | undefined;
  const answered = await request(sent.url, {
    dispatcher,
    method: sent.method as Dispatcher.HttpMethod,
    headers: sent.headers.filter(([name]) => !TRANSPORT.has(name)).flat(),
    body: sent.body === '' ? null : Buffer.from(sent.body, 'base64'),
    signal,
    onInfo: ({ headers }) => {
      announced = Number(headers[ANNOUNCED_STATUS]) || undefined;
    },
  }).catch((error: unknown) => {
    // The status line stands, also where the headers behind it break off.
    if (announced === undefined || signal.aborted) throw error;
    return undefined;
  });
  if (answered === undefined) return { status: announced ?? 0, headers: [], body: '' };
  const { statusCode, headers, body } = answered;
  const chunks: Uint8Array[] = [];
  let read = 0;
  try {
    for await (const chunk of body) {
      read += chunk.length;
      if (read > MAX_ANSWER_BYTES) break;
      chunks.push(chunk);
    }
  } catch (error) {
    // A body that breaks off.
    if (signal.aborted) throw error;
  }
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined || TRANSPORT.has(name) ? [] : [[name, String(value)] as const],
  );
  return { status: statusCode, headers: pairs, body: Buffer.concat(chunks).toString('base64') };
}
