import { errorBody } from '../resources/schemas.ts';
import type { Answer } from './document.ts';

/** An error response as a component of the document. */
interface Refusal {
  readonly name: string;
  readonly description: string;
  readonly error: string;
  /** An example of `details`, for responses that have them. */
  readonly detail?: { readonly path: string; readonly message: string };
  /** An example of further fields. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly retryAfter?: true;
  /** The reason is in `WWW-Authenticate`. */
  readonly challenge?: true;
}

/** All error responses, by status, as `errors/` creates them. */
export const REFUSALS: Readonly<Record<number, Refusal>> = {
  400: {
    name: 'InvalidRequest',
    description: 'The request does not match this description; `details` lists the faults.',
    error: 'invalid request',
    detail: { path: '/name', message: 'is required' },
  },
  401: {
    name: 'NotAuthenticated',
    description:
      'The credential is missing, expired, revoked or unknown; the header `WWW-Authenticate` says which.',
    error: 'not authenticated',
    challenge: true,
  },
  403: {
    name: 'PermissionDenied',
    description:
      'The credential is valid, but of the wrong kind or without the permission, or the workspace or organization is foreign or missing. The header `WWW-Authenticate` says what is missing.',
    error: 'permission denied',
    challenge: true,
  },
  404: {
    name: 'NotFound',
    description: 'There is no such resource in this workspace or organization.',
    error: 'not found',
  },
  409: {
    name: 'Conflict',
    description:
      'The current state does not permit the change: `reason` is the reason and `causes` the entities that prevent it. Or a quota is full: then `error` is `quota exceeded`, `quota` its name and `limit` its value.',
    error: 'conflict',
    fields: {
      reason: 'in_use',
      causes: [{ kind: 'rule', id: '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70', name: 'Orders to the CRM' }],
    },
  },
  412: {
    name: 'VersionMismatch',
    description: 'The current version is not named by `If-Match`.',
    error: 'version mismatch',
  },
  413: {
    name: 'PayloadTooLarge',
    description: 'The body is too large: as sent, inflated, or in its stored form.',
    error: 'payload too large',
    detail: { path: '', message: 'the body is too large' },
  },
  415: {
    name: 'UnsupportedMediaType',
    description:
      'The body is no JSON, or its `Content-Encoding` is none of gzip, deflate, br, zstd and identity, or more than two of them.',
    error: 'unsupported media type',
  },
  429: {
    name: 'TooManyRequests',
    description:
      'The credential called too often, an address failed to authenticate too often, there were too many changes, or too many streams are open. Where a bound of a workspace, organization or account was reached, `quota` names it and `limit` is what it allows. Of a budget of bytes `error` is `storage budget exceeded`, and `used` what is used of it.',
    error: 'too many requests',
    retryAfter: true,
  },
  500: {
    name: 'InternalError',
    description: 'A fault of Tributary: nothing is confirmed.',
    error: 'internal error',
  },
  503: {
    name: 'Unavailable',
    description:
      'An engine does not answer, or the caller holds its share of the memory for bodies, for events that are not confirmed yet or for answers: nothing is confirmed, and the same request may be sent again.',
    error: 'unavailable',
    retryAfter: true,
  },
};

/** The properties of an operation that determine its error responses. */
export interface RefusableCall {
  readonly method: string;
  /** The path names a resource below its workspace or organization. */
  readonly namesResource: boolean;
  /** Changes the catalog or starts an action. */
  readonly isOfCatalog: boolean;
  /** The operation accepts `If-Match`. */
  readonly takesVersion: boolean;
  /** Needs no credential and uses no engine. */
  readonly isPublic: boolean;
}

/** The statuses of error responses, ascending. */
export function refusalsOf({
  method,
  namesResource,
  isOfCatalog,
  takesVersion,
  isPublic,
}: RefusableCall): readonly number[] {
  const changes = method !== 'get';
  return [
    400,
    ...(isPublic ? [] : [401, 403]),
    ...(namesResource ? [404] : []),
    ...(changes && isOfCatalog ? [409] : []),
    ...(takesVersion ? [412] : []),
    ...(changes ? [413, 415] : []),
    ...(isPublic ? [500] : [429, 500, 503]),
  ];
}

/** The components that operations refer to. */
export function refusalResponses(): Record<string, Answer> {
  return Object.fromEntries(
    Object.values(REFUSALS).map(({ name, description, error, detail, fields, challenge, retryAfter }) => [
      name,
      {
        description,
        headers: {
          'X-Request-Id': { $ref: '#/components/headers/RequestId' },
          ...(challenge && {
            'WWW-Authenticate': { $ref: '#/components/headers/WwwAuthenticate' },
          }),
          ...(retryAfter && { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }),
        },
        content: {
          'application/json': {
            schema: errorBody,
            example: { error, ...fields, ...(detail && { details: [detail] }) },
          },
        },
      },
    ]),
  );
}
