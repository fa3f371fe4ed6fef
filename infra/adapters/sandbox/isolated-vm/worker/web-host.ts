import { createHash, createHmac } from 'node:crypto';

/**
 * Operations of the worker's Node for code inside an isolate. Arguments and result are texts; undefined if the operation
 * fails. They have no side effects, keep no state, and never throw.
 */
export type WebHost = (operation: string, ...texts: readonly string[]) => string | undefined;

/** Most characters of an argument; an event has 32 KiB. */
const MAX_CHARS = 1024 * 1024;
const ALGORITHMS: ReadonlySet<string> = new Set(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']);
/** The writable properties of `URL`. */
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

/** Bytes are passed as a text with one character for each. */
function encodingOf(kind: string): 'utf8' | 'latin1' {
  return kind === 'bytes' ? 'latin1' : 'utf8';
}

function partsOf(url: URL): string {
  return JSON.stringify([url.origin, ...PARTS.map((part) => url[part])]);
}
