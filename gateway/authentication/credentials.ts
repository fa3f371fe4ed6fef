import type { FastifyRequest } from 'fastify';

/** What every key begins with, and no ID token does. */
export const KEY_START = 'trb_';
const BEARER = /^Bearer +([^\s]+) *$/i;

/** The credential of the platform API. */
export function bearerOf({ headers }: FastifyRequest): string | undefined {
  return BEARER.exec(headers.authorization ?? '')?.[1];
}

/**
 * The credential of the profile API, which has a header for keys. When that is there it is the one, whatever stands
 * beside it, and it holds a key or nothing that is good: who means the one is not to be let in by the other.
 */
export function keyOrBearerOf(request: FastifyRequest): string | undefined {
  const { apikey } = request.headers;
  if (apikey === undefined) return bearerOf(request);
  return typeof apikey === 'string' && apikey.startsWith(KEY_START) ? apikey : undefined;
}

/**
 * SDKs that were made for Segment or RudderStack have their write key in one of these places: the user of `Basic`, as a
 * bearer, in the path or the query (what loads settings, and `sendBeacon`, which can set no header), or in the body. A
 * header is the one that counts, whatever stands elsewhere.
 */
export function sdkCredentialOf(request: FastifyRequest): string | undefined {
  const { authorization } = request.headers;
  return authorization === undefined ? keyInAddress(request) : (bearerOf(request) ?? userOf(authorization));
}

/** Whether a request names a credential before its body. */
export function namesCredential(request: FastifyRequest): boolean {
  return request.headers.authorization !== undefined || keyInAddress(request) !== undefined;
}

export function keyInBody({ body }: FastifyRequest): string | undefined {
  return textIn(body, 'writeKey');
}

/** In a text of JSON that was not parsed, wherever it stands. Keys are written in letters that nobody escapes. */
const KEY_IN_TEXT = /"writeKey"\s*:\s*"(trb_\w{1,64})"/g;
/** More than anybody has keys in one body. */
const MAX_KEYS_IN_TEXT = 4;

/** What may be the key that `keyInBody` will find, the first of them. */
export function keysInText(text: Buffer): readonly string[] {
  const keys = new Set<string>();
  for (const [, key = ''] of text.toString('latin1').matchAll(KEY_IN_TEXT)) {
    keys.add(key);
    if (keys.size === MAX_KEYS_IN_TEXT) break;
  }
  return [...keys];
}

function keyInAddress({ params, query }: FastifyRequest): string | undefined {
  return textIn(params, 'writeKey') ?? textIn(query, 'writeKey');
}

const BASIC = /^Basic +([A-Za-z0-9+/_-]+={0,2}) *$/i;

/** The user of `Basic`; the password is nobody's. */
function userOf(authorization: string): string | undefined {
  const encoded = BASIC.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const [user] = Buffer.from(encoded, 'base64').toString('utf8').split(':', 1);
  return user;
}

function textIn(fields: unknown, name: string): string | undefined {
  if (typeof fields !== 'object' || fields === null || !Object.hasOwn(fields, name)) return undefined;
  const value = (fields as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' ? value : undefined;
}
