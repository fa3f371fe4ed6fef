import { createHash, createHmac } from 'node:crypto';

/**
 * Answered by the worker's own Node for code inside an isolate: texts in, a text out, undefined where that is not
 * possible. Nothing here reads or writes anything outside, keeps anything, or throws.
 */
export type WebHost = (operation: string, ...texts: readonly string[]) => string | undefined;

/** Characters that one call may bring: an event is 32 KiB. */
const MAX_CHARS = 1024 * 1024;
const ALGORITHMS: ReadonlySet<string> = new Set(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']);
/** What a setter of `URL` may set. */
const PARTS = [
  'href',
  'protocol',
  'username',
  'password',
  'host',
  'hostname',
  'port',
  'pathname',
  'search',
  'hash',
] as const;

export const webHost: WebHost = (operation, ...texts) => {
  if (texts.some((text) => typeof text !== 'string' || text.length > MAX_CHARS)) return undefined;
  const [first = '', second = '', third = '', fourth = ''] = texts;
  try {
    switch (operation) {
      case 'hash':
        if (!ALGORITHMS.has(first)) return undefined;
        return createHash(first).update(second, encodingOf(third)).digest().toString('latin1');
      case 'hmac': {
        if (!ALGORITHMS.has(first)) return undefined;
        const [algorithm, key, data, encodings] = [first, second, third, fourth];
        const [ofKey = '', ofData = ''] = encodings.split(',');
        return createHmac(algorithm, Buffer.from(key, encodingOf(ofKey)))
          .update(data, encodingOf(ofData))
          .digest()
          .toString('latin1');
      }
      case 'url':
        return partsOf(texts.length > 1 ? new URL(first, second) : new URL(first));
      case 'set-url': {
        const url = new URL(first);
        const name = PARTS.find((part) => part === second);
        if (name === undefined) return undefined;
        url[name] = third;
        return partsOf(url);
      }
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
};

/** Bytes come as a text of one character each. */
function encodingOf(said: string): 'utf8' | 'latin1' {
  return said === 'bytes' ? 'latin1' : 'utf8';
}

function partsOf(url: URL): string {
  return JSON.stringify([url.origin, ...PARTS.map((part) => url[part])]);
}
