import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TailedEvent, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { type EventStream, openEventStream, type StreamOptions } from '../../helpers/event-stream.ts';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { measured } from '../../helpers/measured.ts';

const LIMITS = {
  streams: 6,
  workspaceStreams: 4,
  organizationStreams: 5,
  accountStreams: 5,
  commentEveryMs: 300,
  stallTimeoutMs: 5_000,
};
const TRUSTED_MS = 60_000;

let test: TestGateway;
let base: string;
let owner: Client;
beforeEach(async () => {
  test = await openTestGateway({ dependencies: { liveLimits: LIMITS, trustCatalogForMs: TRUSTED_MS } });
  base = await test.app.listen({ host: '127.0.0.1', port: 0 });
  owner = await test.openWorkspace();
});
afterEach(() => test.close());

async function open(options: Partial<StreamOptions> = {}): Promise<EventStream> {
  const stream = await openEventStream(base, {
    token: String(owner.token),
    workspaceId: String(owner.workspaceId),
    ...options,
  });
  onTestFinished(() => stream.close());
  return stream;
}

let offset = 0;
/** As the stage appends them, one append an event. */
async function send(count: number, changes: Partial<TailedEvent> = {}): Promise<void> {
  for (let sent = 0; sent < count; sent++) {
    const n = offset++;
    const event = {
      workspaceId: String(owner.workspaceId),
      environment: 'production',
      data: `{"n":${n}}`,
      offset: n,
    } as const;
    await test.dependencies.liveTail.append({
      topic: 'events.accepted',
      partition: 0,
      events: [{ ...event, ...changes }],
    });
  }
}
beforeEach(() => {
  offset = 0;
});

const numbers = (stream: EventStream) => stream.events<{ n: number }>().map(({ n }) => n);
const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

describe('a live stream', () => {
  it('has Server-Sent Events that no proxy caches or buffers', async () => {
    await send(3);
    const stream = await open();
    expect(stream.status).toBe(200);
    expect(stream.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    await stream.got(3);
    expect(stream.retry).toBeGreaterThanOrEqual(1_000);
    expect(stream.messages.map(({ event }) => event)).toEqual(['event', 'event', 'event']);
    expect(new Set(stream.messages.map(({ id }) => id)).size).toBe(3);
    await send(2);
    await stream.got(5);
    expect(numbers(stream)).toEqual(upTo(0, 5));
  });

  it('has its headers before the first event, and each event at once', async () => {
    const stream = await open();
    expect(stream.status).toBe(200);
    let sent = 0;
    const arrivalMs = async () => {
      await sleep(100);
      const sentAt = performance.now();
      await send(1);
      await stream.got(++sent);
      return (stream.messages.at(-1)?.at ?? Number.NaN) - sentAt;
    };
    expect(await measured(arrivalMs, (ms) => ms < 200)).toBeLessThan(200);
  });

  it('resumes after Last-Event-ID without a gap or duplicate, and reports a position that is no longer kept', async () => {
    await send(10);
    const first = await open();
    await first.got(10);
    const { id } = first.messages[3] ?? { id: '' };
    first.close();
    await send(5);
    const second = await open({ lastEventId: id });
    await second.got(11);
    expect(numbers(second)).toEqual(upTo(4, 15));
    expect(second.notices('missed')).toEqual([]);
    await send(600);
    const late = await open({ lastEventId: id });
    await late.got(500);
    expect(late.notices('missed')).toEqual([{ count: 615 - 500 - 4 }]);
    expect(numbers(late)).toEqual(upTo(115, 615));
    const stranger = await open({ lastEventId: 'of-another-server-7' });
    await stranger.got(500);
    expect(stranger.notices('missed')).toEqual([{ count: null }]);
  });

  it('is filtered by environment, and comments carry the position after omitted events', async () => {
    const stream = await open({ query: '?environment=development' });
    await send(2);
    await send(1, { environment: 'development' });
    await send(3);
    await stream.got(1);
    expect(numbers(stream)).toEqual([2]);
    const seen = stream.lastEventId;
    await eventually(
      () => stream.lastEventId,
      (id) => id !== seen,
    );
    expect(stream.comments.length).toBeGreaterThan(0);
    const second = await open({ lastEventId: stream.lastEventId });
    await send(1);
    await second.got(1);
    expect(numbers(second)).toEqual([6]);
  });

  it('does not accept HEAD, which would never end', async () => {
    const path = `/api/v1/workspaces/${owner.workspaceId}/events/live`;
    const headers = { authorization: `Bearer ${owner.token}`, 'x-workspace-id': String(owner.workspaceId) };
    // This path is the HEAD of an event called `live`.
    expect((await fetch(base + path, { method: 'HEAD', headers })).status).toBe(404);
  });
});

describe('an open live stream', () => {
  const within = 1_000;

  it('ends when its token expires', async () => {
    const stream = await open();
    test.clock.pass(3_600_000 + 31_000);
    const from = performance.now();
    await stream.over();
    expect(performance.now() - from).toBeLessThan(within);
    expect(stream.notices('end')).toEqual([{ reason: 'not authenticated' }]);
    expect((await open()).status).toBe(200); // the identity's own clock did not advance
  });

  it('ends when its key is revoked, and cannot be opened again', async () => {
    const { key, id } = await owner.ok<{ key: string; id: string }>('POST', './api-keys', {
      name: 'x',
      role: 'viewer',
    });
    const [stream, other] = [await open({ token: key }), await open()];
    await send(1);
    await stream.got(1);
    await owner.ok('DELETE', `./api-keys/${id}`);
    const from = performance.now();
    await stream.over();
    expect(performance.now() - from).toBeLessThan(within);
    expect(stream.notices('end')).toEqual([{ reason: 'not authenticated' }]);
    expect((await open({ token: key })).status).toBe(401);
    await send(1);
    await other.got(2);
    expect(other.isOver).toBe(false);
  });

  it('ends when the member is removed', async () => {
    const viewer = await test.signIn('viewer@example.com');
    const member = { email: 'viewer@example.com', role: 'viewer' };
    const { id } = await owner.ok<{ id: string }>('POST', './members', member);
    await viewer.ok('GET', '/workspaces'); // takes the slot
    const [stream, other] = [await open({ token: String(viewer.token) }), await open()];
    expect(stream.status).toBe(200);
    await owner.ok('DELETE', `./members/${id}`);
    await stream.over(within);
    expect(stream.notices('end')).toEqual([{ reason: 'permission denied' }]);
    expect(other.isOver).toBe(false);
  });

  it('ends when the catalog is too old to decide about permissions, and not before', async () => {
    const age = vi.spyOn(test.dependencies.catalog, 'age', 'get').mockReturnValue(TRUSTED_MS);
    onTestFinished(() => age.mockRestore());
    const stream = await open();
    await eventually(
      () => age.mock.calls.length,
      (looks) => looks >= 2,
    );
    expect(stream.isOver).toBe(false);
    age.mockReturnValue(TRUSTED_MS + 1);
    await stream.over(within);
    expect(stream.notices('end')).toEqual([{ reason: 'unavailable' }]);
  });

  it('ends when the server stops, which does not wait for clients that do not read', async () => {
    const stream = await open();
    await open({ paused: true });
    const from = performance.now();
    await test.app.close();
    expect(performance.now() - from).toBeLessThan(3_000);
    await stream.over();
    expect(stream.notices('end')).toEqual([{ reason: 'shutting down' }]);
  });
});

describe('too many live streams', () => {
  it('are 429, for the workspace and for the gateway, until one is closed', async () => {
    const mine = await Promise.all(upTo(0, LIMITS.workspaceStreams).map(() => open()));
    const refused = await open();
    expect(refused.status).toBe(429);
    expect(refused.headers['retry-after']).toBe('5');
    await refused.over();
    expect(JSON.parse(refused.text)).toEqual({
      error: 'too many requests',
      quota: 'live_streams_of_workspace',
      limit: LIMITS.workspaceStreams,
    });
    const other = await test.openWorkspace('other@example.com');
    const asOther = { token: String(other.token), workspaceId: String(other.workspaceId) };
    for (const _ of upTo(0, LIMITS.streams - LIMITS.workspaceStreams))
      expect((await open(asOther)).status).toBe(200);
    // One more of theirs, so that both have three.
    expect((await open(asOther)).status).toBe(200);
    expect((await open(asOther)).status).toBe(429);
    await eventually(
      () => mine.filter(({ isOver }) => isOver).length,
      (count) => count === 1,
    );
    const first = mine.find(({ isOver }) => !isOver);
    first?.close();
    await eventually(
      async () => (await open()).status,
      (status) => status === 200,
    );
  });

  it('were opened by one person through ten workspaces: an account has one share over its workspaces, keys and organizations', async () => {
    const streams: EventStream[] = [];
    for (let n = 0; n < LIMITS.accountStreams + 2; n++) {
      const workspace = await test.openWorkspace(); // and an organization
      const key = await workspace.withApiKey('viewer');
      const token = String((n % 2 === 0 ? key : workspace).token);
      streams.push(await open({ token, workspaceId: String(workspace.workspaceId) }));
    }
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429]);
    const refused = streams.at(-1);
    await refused?.over();
    expect(refused?.headers['retry-after']).toBe('5');
    expect(JSON.parse(refused?.text ?? '')).toMatchObject({ quota: 'live_streams_of_account', limit: 5 });
    // An account without a stream gets one, even when all slots are taken.
    for (const name of ['ada', 'eve', 'zoe']) {
      const other = await test.openWorkspace(`${name}@example.com`);
      const stream = await open({ token: String(other.token), workspaceId: String(other.workspaceId) });
      expect(stream.status).toBe(200);
    }
    const ended = streams.filter(({ status }) => status === 200).slice(-2);
    for (const stream of ended) {
      await stream.over();
      expect(stream.notices('end')).toEqual([{ reason: 'too many streams' }]);
    }
    expect(streams.slice(0, 3).map(({ isOver }) => isOver)).toEqual([false, false, false]);
  });

  it('are not counted if they could not be opened, or the client disconnected before', async () => {
    const follow = vi.spyOn(test.dependencies.liveTail, 'follow');
    follow.mockRejectedValue(new Unavailable('down'));
    for (const _ of upTo(0, 10)) {
      const refused = await open();
      expect(refused.status).toBe(503);
      expect(refused.headers['retry-after']).toBe('1');
    }
    follow.mockRestore();
    for (const _ of upTo(0, 20)) {
      const socket = connect(Number(new URL(base).port), '127.0.0.1');
      const lines = [
        `GET /api/v1/workspaces/${owner.workspaceId}/events/live HTTP/1.1`,
        'host: x',
        `authorization: Bearer ${owner.token}`,
        `x-workspace-id: ${owner.workspaceId}`,
      ];
      socket.write(`${lines.join('\r\n')}\r\n\r\n`, () => socket.destroy());
      await new Promise((resolve) => socket.once('close', resolve));
    }
    await eventually(
      async () => {
        const streams = await Promise.all(upTo(0, LIMITS.workspaceStreams).map(() => open()));
        for (const stream of streams) stream.close();
        return streams.map(({ status }) => status);
      },
      (statuses) => statuses.every((status) => status === 200),
    );
  });
});

describe('a client that does not read', () => {
  const large = (n: number) => `{"n":${n},"x":"${'x'.repeat(8_000)}"}`;

  async function sendLarge(count: number): Promise<void> {
    for (const _ of upTo(0, count)) await send(1, { data: large(offset) });
  }

  /** Sends far more than the buffers of both ends and of the system hold, no faster than `reader` reads. */
  async function sendMuch(reader: EventStream): Promise<void> {
    for (const _ of upTo(0, 45)) {
      await sendLarge(40);
      await reader.got(offset);
    }
  }

  it('gets the number of missed events once it reads again, and delays no other client', async () => {
    const [slow, quick] = [await open({ paused: true }), await open()];
    await sendMuch(quick);
    expect(slow.isOver).toBe(false);
    slow.resume();
    await eventually(
      () => numbers(slow).at(-1),
      (last) => last === offset - 1,
    );
    const missed = (slow.notices('missed') as { count: number }[]).reduce((sum, { count }) => sum + count, 0);
    expect(missed).toBeGreaterThan(500);
    expect(missed + numbers(slow).length).toBe(offset);
    expect(numbers(slow)).toEqual(numbers(slow).toSorted((a, b) => a - b));
  });

  it('is disconnected if it does not read for too long', async () => {
    const [slow, quick] = [await open({ paused: true }), await open()];
    await sendMuch(quick);
    await eventually(openSockets, (count) => count === 1);
    expect(quick.isOver).toBe(false);
    slow.resume();
    await slow.over();
  });
});

function openSockets(): Promise<number> {
  return new Promise((resolve, reject) =>
    test.app.server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}
