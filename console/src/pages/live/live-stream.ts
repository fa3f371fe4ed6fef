import { createParser } from 'eventsource-parser';
import { ApiError, apiErrorOf } from '../../api/errors.ts';
import { bearer, sessionEnded } from '../../session/session.ts';
import type { Environment } from '../../shared/event-fields.ts';

/** An item of the stream; the state of the connection is reported apart. */
export type StreamItem =
  | { readonly kind: 'event'; readonly json: string }
  /**
   * Events that the stream did not deliver: the connection was too slow, or the server no longer keeps them; null: unknown.
   */
  | { readonly kind: 'missed'; readonly count: number | null };

export type StreamStatus =
  | { readonly state: 'connecting' | 'open' }
  /** The engine behind the stream does not answer; the stream resumes by itself. */
  | { readonly state: 'interrupted' }
  | { readonly state: 'waiting'; readonly until: number; readonly reason: string }
  /** A retry would not help. */
  | { readonly state: 'refused'; readonly error: ApiError };

interface Follow {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  /** Start after the event with this id. */
  readonly after: string | undefined;
  readonly signal: AbortSignal;
  onItem(item: StreamItem): void;
  onStatus(status: StreamStatus): void;
  /** Reports the id to resume from. */
  onLastEventId(id: string): void;
}

/** The server sends something every 15 s. A connection that is silent for longer than this is considered lost, ms. */
const SILENCE_MS = 45_000;
const MAX_WAIT_MS = 30_000;
/** Minimum wait after the server closed the stream to make room for another one, ms. */
const TAKEN_WAIT_MS = 10_000;

/** First wait before a reconnect, until the server sends another value, ms. */
const FIRST_WAIT_MS = 1_500;

/**
 * Follows the events of a workspace until `signal` is aborted or the API refuses; reconnects after the last event it has
 * seen.
 */
export async function followEvents(follow: Follow): Promise<void> {
  const { signal, onStatus } = follow;
  const connection = { lastEventId: follow.after, retryMs: FIRST_WAIT_MS, failures: 0 };
  while (!signal.aborted) {
    onStatus({ state: 'connecting' });
    const outcome = await connect(follow, connection).catch((error: unknown) => error);
    if (signal.aborted) return;
    if (outcome instanceof ApiError && !outcome.isTemporary) {
      if (outcome.status === 401) sessionEnded();
      onStatus({ state: 'refused', error: outcome });
      return;
    }
    connection.failures++;
    const waitMs = waitOf(outcome, connection);
    onStatus({ state: 'waiting', until: Date.now() + waitMs, reason: reasonOf(outcome) });
    await sleep(waitMs, signal);
  }
}

interface Connection {
  lastEventId: string | undefined;
  retryMs: number;
  failures: number;
}

/** Resolves with the server's reason for ending the stream, or undefined if the connection just ended. */
async function connect(follow: Follow, connection: Connection): Promise<string | undefined> {
  const silence = new AbortController();
  let alarm = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const response = await fetch(urlOf(follow), {
      headers: await headersOf(follow, connection.lastEventId),
      signal: AbortSignal.any([follow.signal, silence.signal]),
      cache: 'no-store',
    });
    if (!response.ok) throw await apiErrorOf(response);
    if (response.body === null) return undefined;
    follow.onStatus({ state: 'open' });
    let ended: string | undefined;
    const parser = createParser({
      onRetry: (ms) => {
        connection.retryMs = ms;
      },
      onEvent: ({ id, event, data }) => {
        if (id !== undefined) keepLastEventId(follow, connection, id);
        connection.failures = 0;
        if (event === 'end') ended = fieldOf(data, 'reason');
        else report(follow, event, data);
      },
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return ended;
      clearTimeout(alarm);
      alarm = setTimeout(() => silence.abort(), SILENCE_MS);
      parser.feed(value);
      const id = ID_OF_COMMENT.exec(value)?.[1];
      if (id !== undefined) keepLastEventId(follow, connection, id);
    }
  } finally {
    clearTimeout(alarm);
  }
}

/** A keep-alive comment has the id to resume from and no data; the event parser does not report it. */
const ID_OF_COMMENT = /^: still here\nid: ([^\n]+)\n/m;

function keepLastEventId(follow: Follow, connection: Connection, id: string): void {
  connection.lastEventId = id;
  follow.onLastEventId(id);
}

function report({ onItem, onStatus }: Follow, event: string | undefined, data: string): void {
  switch (event) {
    case 'event':
      onItem({ kind: 'event', json: data });
      break;
    case 'missed': {
      const count = Number(fieldOf(data, 'count') ?? Number.NaN);
      onItem({ kind: 'missed', count: Number.isFinite(count) ? count : null });
      break;
    }
    case 'interrupted':
      onStatus({ state: 'interrupted' });
      break;
    case 'resumed':
      onStatus({ state: 'open' });
      break;
  }
}

function urlOf({ workspaceId, environment }: Follow): string {
  const query = environment === undefined ? '' : `?environment=${environment}`;
  return `/api/v1/workspaces/${workspaceId}/events/live${query}`;
}

async function headersOf(
  { workspaceId }: Follow,
  lastEventId: string | undefined,
): Promise<Record<string, string>> {
  return {
    accept: 'text/event-stream',
    'x-workspace-id': workspaceId,
    authorization: `Bearer ${await bearer()}`,
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
  };
}

function waitOf(outcome: unknown, { retryMs, failures }: Connection): number {
  const backoff = Math.min(MAX_WAIT_MS, retryMs * 2 ** Math.min(failures - 1, 5));
  if (outcome === 'too many streams') return Math.max(TAKEN_WAIT_MS, backoff);
  if (outcome instanceof ApiError) return Math.max((outcome.retryAfterS ?? 0) * 1_000, backoff);
  return backoff;
}

const ENDED: Readonly<Record<string, string>> = {
  'not authenticated': 'The sign-in ended.',
  'permission denied': 'You may not see this workspace any more.',
  unavailable: 'The server cannot check permissions at the moment.',
  'shutting down': 'The server is restarting.',
  'too many streams': 'Too many streams are open at this server.',
};

function reasonOf(outcome: unknown): string {
  if (outcome instanceof ApiError) return outcome.message;
  if (typeof outcome === 'string') return ENDED[outcome] ?? outcome;
  return 'The connection ended.';
}

function fieldOf(data: string, name: string): string | undefined {
  try {
    const value: unknown = (JSON.parse(data) as Record<string, unknown>)[name];
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  } catch {
    return undefined;
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
