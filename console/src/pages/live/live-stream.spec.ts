import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { signedIn } from '../../session/session.ts';
import { followEvents, type StreamItem, type StreamStatus } from './live-stream.ts';

const JSON_HEADERS = { 'content-type': 'application/json' };

interface Followed {
  readonly items: readonly StreamItem[];
  readonly states: readonly StreamStatus[];
  readonly lastEventIds: readonly string[];
  /** `Last-Event-ID` of each request. */
  readonly askedAfter: readonly (string | null)[];
}

/** Answers the requests in turn, and aborts the stream when no answers are left. */
async function follow(answers: readonly (() => Response)[], after?: string): Promise<Followed> {
  const stop = new AbortController();
  const askedAfter: (string | null)[] = [];
  const left = [...answers];
  vi.stubGlobal('fetch', (_url: string, init: RequestInit) => {
    const answer = left.shift();
    if (answer === undefined) {
      stop.abort();
      return Promise.reject(new DOMException('left', 'AbortError'));
    }
    askedAfter.push(new Headers(init.headers).get('last-event-id'));
    return Promise.resolve(answer());
  });
  const [items, states, lastEventIds]: [StreamItem[], StreamStatus[], string[]] = [[], [], []];
  await followEvents({
    workspaceId: 'w',
    environment: 'production',
    after,
    signal: stop.signal,
    onItem: (item) => items.push(item),
    onStatus: (status) => states.push(status),
    onLastEventId: (id) => lastEventIds.push(id),
  });
  return { items, states, lastEventIds, askedAfter };
}

/** A stream that arrives in pieces and then ends. */
const streamOf =
  (...pieces: readonly string[]) =>
  () => {
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const text of ['retry: 1\n\n', ...pieces]) controller.enqueue(encoder.encode(text));
        controller.close();
      },
    });
    return new Response(body);
  };

const errorOf =
  (status: number, error: string, headers: Readonly<Record<string, string>> = {}) =>
  () =>
    new Response(JSON.stringify({ error }), { status, headers: { ...JSON_HEADERS, ...headers } });

beforeEach(() =>
  signedIn(
    { token: 'of a person', expiresAt: Date.now() + 3_600_000 },
    { renew: async () => undefined, signOut: async () => undefined },
  ),
);
afterEach(() => vi.unstubAllGlobals());

describe('the live stream', () => {
  it('brings events, and reconnects behind the last one', async () => {
    const { items, askedAfter, lastEventIds } = await follow([
      streamOf('id: a1\nevent: event\ndata: {"n":1}\n\nid: a2\neve', 'nt: event\ndata: {"n":2}\n\n'),
      streamOf('id: a3\nevent: event\ndata: {"n":3}\n\n'),
    ]);
    expect(items).toEqual([1, 2, 3].map((n) => ({ kind: 'event', json: `{"n":${n}}` })));
    expect(askedAfter).toEqual([null, 'a2']);
    expect(lastEventIds).toEqual(['a1', 'a2', 'a3']);
  });

  it('reconnects behind the id of a comment, which may be behind events of another environment', async () => {
    const { askedAfter } = await follow([streamOf(': still here\nid: far-7\n\n'), streamOf()], 'given');
    expect(askedAfter).toEqual(['given', 'far-7']);
  });

  it('reports missed events, interruptions, and the reason of its end', async () => {
    const { items, states } = await follow([
      streamOf(
        'event: missed\ndata: {"count":12}\n\n',
        'event: missed\ndata: {"count":null}\n\n',
        'event: interrupted\ndata: {}\n\n',
        'event: resumed\ndata: {}\n\n',
        'event: end\ndata: {"reason":"shutting down"}\n\n',
      ),
    ]);
    expect(items).toEqual([
      { kind: 'missed', count: 12 },
      { kind: 'missed', count: null },
    ]);
    expect(states.map(({ state }) => state)).toEqual([
      'connecting',
      'open',
      'interrupted',
      'open',
      'waiting',
      'connecting',
    ]);
    expect(states[4]).toMatchObject({ reason: 'The server is restarting.' });
  });

  it('waits as long as the server asks for', async () => {
    const before = Date.now();
    const { states } = await follow([streamOf(), errorOf(503, 'unavailable', { 'retry-after': '1' })]);
    const waiting = states.findLast(({ state }) => state === 'waiting');
    expect(waiting).toMatchObject({ reason: 'unavailable' });
    expect(Date.now() - before).toBeGreaterThanOrEqual(1_000);
  });

  it('does not reconnect where it is refused', async () => {
    const { states, askedAfter } = await follow([errorOf(403, 'permission denied'), streamOf()]);
    expect(states.at(-1)).toMatchObject({ state: 'refused', error: { message: 'permission denied' } });
    expect(askedAfter).toHaveLength(1);
  });
});
