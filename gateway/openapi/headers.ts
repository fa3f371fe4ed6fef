import { CLIENT_KEY_SCOPES } from '@tributary/core';
import type { Header, Parameter } from './document.ts';

/** Response headers, by the names of their components. */
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

/** A request header as a parameter. */
export function headerParameter(name: HeaderName, required: boolean): Parameter {
  return { in: 'header', name, ...PARAMETERS[name], required };
}
