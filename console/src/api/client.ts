import createClient, { type Middleware } from 'openapi-fetch';
import { afterRefusal, bearer } from '../session/session.ts';
import { ApiError, apiErrorOf } from './errors.ts';
import type { components, paths } from './schema.gen.ts';

export type Schemas = components['schemas'];

const WORKSPACE = /\/api\/v1\/workspaces\/([0-9a-f-]{36})(?:\/|$)/;

/** Adds what every call needs, and turns each answer that is no success into an `ApiError`. */
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
 * A call that the API refuses with 401 waits until the session is renewed, or the person has signed in again, and is sent
 * once more: what was typed and sent meanwhile is not lost.
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

/** A resource and the version it is of, for the `If-Match` of a change. */
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
  /** Of the next page; absent on the last. */
  readonly nextCursor?: string;
  /** With `count=true`: how many there are on all pages; `100000+` means perhaps more. */
  readonly total?: string;
}

/** A page of a list, with what its headers say. */
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
