import createClient, { type Middleware } from 'openapi-fetch';
import { afterRefusal, bearer } from '../session/session.ts';
import { ApiError, apiErrorOf } from './errors.ts';
import type { components, paths } from './schema.gen.ts';

export type Schemas = components['schemas'];

const WORKSPACE = /\/api\/v1\/workspaces\/([0-9a-f-]{36})(?:\/|$)/;

/**
 * Adds the headers that every call needs. Rejects with an `ApiError` on an error answer, or if the server does not answer.
 */
const conventions: Middleware = {
  async onRequest({ request }) {
    request.headers.set('authorization', `Bearer ${await bearer()}`);
    const workspaceId = WORKSPACE.exec(new URL(request.url).pathname)?.[1];
    if (workspaceId !== undefined) request.headers.set('x-workspace-id', workspaceId);
    return request;
  },
  async onResponse({ response }) {
    if (!response.ok) throw await apiErrorOf(response);
  },
  onError({ error }) {
    if (error instanceof ApiError || (error instanceof DOMException && error.name === 'AbortError')) return;
    return new ApiError('The server does not answer.', { status: 0 });
  },
};

/**
 * Sends a call that the API refuses with 401 once more, after the session is renewed or the person has signed in again:
 * input that was sent with an expired token is not lost.
 */
async function fetchSignedIn(request: Request): Promise<Response> {
  const again = request.clone();
  const response = await fetch(request);
  const token = /^Bearer (.*)$/.exec(request.headers.get('authorization') ?? '')?.[1];
  if (response.status !== 401 || token === undefined || !(await afterRefusal(token))) return response;
  again.headers.set('authorization', `Bearer ${await bearer()}`);
  return fetch(again);
}

/** The API of the gateway that served this page. Each call resolves with its data, or rejects with an `ApiError`. */
export const api = createClient<paths>({ baseUrl: globalThis.location.origin, fetch: fetchSignedIn });
api.use(conventions);

/** The body of a call that succeeded. */
export async function dataOf<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call;
  if (data === undefined) throw new ApiError('The server answered without a body.', { status: 0 });
  return data;
}

/** A resource with its version, for the `If-Match` of a change. */
export interface Versioned<T> {
  readonly value: T;
  readonly etag: string;
}

export async function versionedOf<T>(call: Promise<{ data?: T; response: Response }>): Promise<Versioned<T>> {
  const { data, response } = await call;
  const etag = response.headers.get('etag');
  if (data === undefined || etag === null)
    throw new ApiError('The server answered without a version.', { status: 0 });
  return { value: data, etag };
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Cursor of the next page; absent on the last page. */
  readonly nextCursor?: string;
  /** Number of items on all pages, with `count=true`; `100000+` stands for perhaps more. */
  readonly total?: string;
}

/** A page of a list, with the cursor and the total from the headers of the answer. */
export async function pageOf<T>(
  call: Promise<{ data?: readonly T[]; response: Response }>,
): Promise<Page<T>> {
  const { data, response } = await call;
  const nextCursor = nextCursorOf(response.headers.get('link'));
  const total = response.headers.get('x-total-count');
  return {
    items: data ?? [],
    ...(nextCursor === undefined ? {} : { nextCursor }),
    ...(total === null ? {} : { total }),
  };
}

export function nextCursorOf(link: string | null): string | undefined {
  const target = /<([^>]+)>;\s*rel="next"/.exec(link ?? '')?.[1];
  if (target === undefined) return undefined;
  return new URL(target, 'http://localhost').searchParams.get('cursor') ?? undefined;
}
