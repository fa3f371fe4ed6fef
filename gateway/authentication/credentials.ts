import type { FastifyRequest } from 'fastify';

/** The prefix of every key; no ID token has it. */
export const KEY_START = 'trb_';
const BEARER = /^Bearer +([^\s]+) *$/i;

/** The credential of a platform API request. */
export function bearerOf({ headers }: FastifyRequest): string | undefined {
  return BEARER.exec(headers.authorization ?? '')?.[1];
}

/**
 * The credential of a profile API request. The header `apikey` takes precedence over a bearer token, also when it holds
 * no key: a request is never authenticated by a credential that its sender did not mean.
 */
export function keyOrBearerOf(request: FastifyRequest): string | undefined {
  const { apikey } = request.headers;
  if (apikey === undefined) return bearerOf(request);
  return typeof apikey === 'string' && apikey.startsWith(KEY_START) ? apikey : undefined;
}

/**
 * The write key of an SDK made for Segment or RudderStack: the user of `Basic`, a bearer token, in the path or query (for
 * loading settings, and for `sendBeacon`, which cannot set headers), or in the body. A header takes precedence.
 */
export function sdkCredentialOf(request: FastifyRequest): string | undefined {
  const { authorization } = request.headers;
  return authorization === undefined ? keyInAddress(request) : (bearerOf(request) ?? userOf(authorization));
}

/** Whether a request has a credential outside of its body. */
export function namesCredential(request: FastifyRequest): boolean {
  return request.headers.authorization !== undefined || keyInAddress(request) !== undefined;
}

export function keyInBody({ body }: FastifyRequest): string | undefined {
  return textIn(body, 'writeKey');
}

/** A key at any place in JSON text. Keys consist of characters that need no escape. */
const KEY_IN_TEXT = /"writeKey"\s*:\s*"(trb_\w{1,64})"/g;
/** Candidates that are checked of one body. */
const MAX_KEYS_IN_TEXT = 4;

/** The first candidates for the key that `keyInBody` finds once the body is parsed. */
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

/** The user name of `Basic`; the password is ignored. */
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
