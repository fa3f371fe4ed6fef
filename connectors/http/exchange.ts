import type { Dispatcher } from 'undici';
import type { Ending } from '../deadlines.ts';
import { oncePer } from '../once-per.ts';
import { Answering, type RawAnswer } from './answering.ts';
import { EXCERPT_BYTES } from './excerpt.ts';

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly url: URL;
  /** Name and value in turn. */
  readonly headers: string[];
  readonly body?: string | Uint8Array;
}

/**
 * Sends one request and waits for its answer, of whose body it keeps `keptBytes` at most. Rejects when no status line
 * came: with the signal's reason, the guard's refusal, or an error of the network. Redirects are answers like any other.
 */
export function exchange(
  dispatcher: Dispatcher,
  { url, method, headers, body }: HttpRequest,
  signal: Ending,
  keptBytes: number = EXCERPT_BYTES,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const { origin, path } = targetOf(url);
    const sent = { origin, path, method, headers, body: body ?? null };
    dispatcher.dispatch(sent, new Answering(signal, keptBytes, { resolve, reject }));
  });
}

/** The parts of a URL are worked out anew whenever they are asked for, and that of a destination stays the same. */
const targetOf = oncePer((url: URL) => ({ origin: url.origin, path: url.pathname + url.search }));
