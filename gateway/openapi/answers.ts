import { CLIENT_KEY_SCOPES } from '@tributary/core';
import { errorBody } from '../resources/schemas.ts';

/*
 * The parts of the document that are alike for all routes: error responses and headers. Their types are the parts of an
 * OpenAPI 3.1 document that are read or written here; other members are kept as they are.
 */

interface Reference {
  readonly $ref: string;
}

interface Header {
  readonly description?: string;
  readonly required?: boolean;
  readonly schema: object;
}

export interface Parameter extends Header {
  /** Prefilled by the reference page. */
  readonly example?: unknown;
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
}

export interface Answer {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header | Reference>>;
  readonly content?: Readonly<Record<string, { readonly schema?: object; readonly example?: unknown }>>;
}

/** An error response as a component of the document. */
interface Refusal {
  readonly name: string;
  readonly description: string;
  readonly error: string;
  /** An example of `details`, for responses that have them. */
  readonly detail?: { readonly path: string; readonly message: string };
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

export const HEADERS = {
  RequestId: {
    description: 'The id of this very request; the audit log names it.',
    required: true,
    schema: { type: 'string', format: 'uuid' },
  },
  ETag: {
    description: 'The version of the resource, for `If-Match`.',
    required: true,
    schema: { type: 'string', pattern: '^"\\d+"$', examples: ['"1"'] },
  },
  Link: {
    description: 'Where the next page is, with `rel="next"`; absent on the last.',
    schema: {
      type: 'string',
      examples: ['</api/v1/workspaces?limit=100&cursor=MjAyNi0w>; rel="next"'],
    },
  },
  TotalCount: {
    description: 'With `count=true`: how many match, on all pages; `+` behind the number: and perhaps more.',
    schema: { type: 'string', pattern: '^\\d+\\+?$', examples: ['42'] },
  },
  WwwAuthenticate: {
    description:
      'Why, as `error_description` (RFC 6750): what is wrong with the credential, or which role, scope, kind of credential or membership is missing. Nothing tells a foreign workspace or organization from one that does not exist.',
    required: true,
    schema: {
      type: 'string',
      examples: [
        'Bearer realm="tributary", error="insufficient_scope", error_description="the role editor in the workspace is missing; the credential has viewer"',
      ],
    },
  },
  RetryAfter: {
    description: 'Seconds to wait before the same request may be sent again.',
    required: true,
    schema: { type: 'string', pattern: '^\\d+$', examples: ['1'] },
  },
} satisfies Record<string, Header>;

type HeaderName = 'X-Workspace-ID' | 'scopes' | 'orgId' | 'If-Match' | 'Last-Event-ID';

const scope = `(${CLIENT_KEY_SCOPES.map((word) => word.replace('.', '\\.')).join('|')})`;

const PARAMETERS: Readonly<Record<HeaderName, Header>> = {
  'X-Workspace-ID': {
    description: 'The workspace of the path once more. With a write key it may be left out.',
    schema: { type: 'string', format: 'uuid' },
  },
  scopes: {
    description:
      'The scopes that the call uses, separated by commas; they can only narrow those of the credential.',
    schema: { type: 'string', pattern: `^${scope}(,${scope})*$`, examples: ['profile.read'] },
  },
  orgId: {
    description: 'The number of the organization: that of the body. Required with an ID token.',
    schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
  },
  'If-Match': {
    description: 'The `ETag` of the version to change; 412 if the resource has another version by now.',
    schema: { type: 'string', examples: ['"1"'] },
  },
  'Last-Event-ID': {
    description: 'The id of the last message that was received: the stream continues after it.',
    schema: { type: 'string' },
  },
};

export function headerParameter(name: HeaderName, required: boolean): Parameter {
  return { in: 'header', name, ...PARAMETERS[name], required };
}
