import { connect, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openTestGateway, type TestGatewayOptions } from '../../helpers/gateway.ts';
import { measured } from '../../helpers/measured.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** A pause of the machine does not count, ms. */
const PAUSE_MS = 1_000;

/** A batch of about this many bytes; with the key in the body it is one of an SDK. */
function batchOf(bytes: number, writeKey?: string): string {
  const subject = writeKey === undefined ? { user_id: 'u' } : { userId: 'u' };
  const item = { type: 'track', event: 'E', ...subject, properties: { text: 'x'.repeat(20_000) } };
  const batch = Array.from({ length: Math.round(bytes / 20_100) }, () => item);
  return JSON.stringify(writeKey === undefined ? { batch } : { batch, writeKey });
}

async function open(options: TestGatewayOptions = {}) {
  const gateway = await openTestGateway(options);
  onTestFinished(() => gateway.close());
  const port = Number(new URL(await gateway.app.listen({ host: '127.0.0.1', port: 0 })).port);
  let requests = 0;
  gateway.app.server.on('request', () => {
    requests++;
  });
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });

  /** Sends the headers of a request and only `sent` bytes of its body. */
  function halfSend(path: string, headers: readonly string[], sent: Buffer, from = '127.0.0.1') {
    const socket = connect({ port, host: '127.0.0.1', localAddress: from });
    sockets.push(socket);
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    const head = [`POST ${path} HTTP/1.1`, 'host: x', 'content-type: application/json', ...headers];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    socket.write(sent);
    return { answer: () => answer, status: () => answer.slice(9, 12), leave: () => socket.destroy() };
  }

  const post = async (path: string, body: string, key?: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body,
    });
    const { rejected = [] } = (await response.json()) as { readonly rejected?: readonly unknown[] };
    expect(rejected).toEqual([]);
    return response.status;
  };

  async function workspace(email: string) {
    const owner = await gateway.openWorkspace(email);
    const key = await owner.writeKey();
    const path = `/api/v1/workspaces/${owner.workspaceId}/events/batch`;
    return {
      owner,
      key,
      path,
      send: (bytes: number) => post(path, batchOf(bytes), key),
      attack: (
        sent: Buffer,
        { lines = ['content-length: 3145728'], withKey = key, from = '127.0.0.1' } = {},
      ) => halfSend(path, [`authorization: Bearer ${withKey}`, ...lines], sent, from),
    };
  }

  return { gateway, begun: () => requests, halfSend, post, workspace };
}

type Attack = ReturnType<Awaited<ReturnType<typeof open>>['halfSend']>;

const statusesOf = (attacks: readonly Attack[]) => attacks.map(({ status }) => status());
const refused = (attacks: readonly Attack[]) =>
  statusesOf(attacks).filter((status) => status === '503').length;

describe('bodies that are never completed', () => {
  const LARGE = { bodies: 192 * MIB, unauthenticatedBodies: 32 * MIB };

  it.each([
    ['90 with one public write key that announce 3 MiB', 90, 'content-length: 3145728', true],
    ['200 without a key that announce 400 KiB', 200, 'content-length: 409600', false],
    ['150 chunked ones', 150, 'transfer-encoding: chunked', true],
    ['110 compressed ones', 110, 'content-length: 3000000\r\ncontent-encoding: gzip', true],
  ])(
    'counted with their announced size: %s caused refusals of larger bodies of others',
    async (_, many, line, withKey) => {
      const { begun, halfSend, workspace } = await open({ dependencies: { memory: LARGE } });
      const [attacker, neighbour] = [await workspace('a@example.com'), await workspace('b@example.com')];
      const timed = async () => {
        const times: number[] = [];
        for (let n = 0; n < 3; n++) {
          const began = performance.now();
          expect(await neighbour.send(MIB)).toBe(202);
          times.push(performance.now() - began);
        }
        return Math.max(...times);
      };
      await neighbour.send(MIB);
      const start = line.includes('chunked') ? Buffer.from('a\r\n{"batch":[\r\n') : Buffer.from('{"batch":[');
      const { quiet, beside } = await measured(
        async () => {
          const quiet = await timed();
          const before = begun();
          const attacks = Array.from({ length: many }, () =>
            withKey ? attacker.attack(start, { lines: [line] }) : halfSend('/v1/batch', [line], start),
          );
          await expect.poll(() => begun() - before).toBe(many);
          const beside = await timed();
          expect(await attacker.send(MIB)).toBe(202);
          expect(statusesOf(attacks)).toEqual(attacks.map(() => ''));
          for (const { leave } of attacks) leave();
          return { quiet, beside };
        },
        (times) => times.beside < 2 * times.quiet + PAUSE_MS,
      );
      expect(beside).toBeLessThan(2 * quiet + PAUSE_MS);
    },
  );
});

describe('memory for bodies that is full', () => {
  const memory = { bodies: 16 * MIB, unauthenticatedBodies: 4 * MIB };
  const PART = Buffer.alloc(700 * KIB, ' ');

  it('was filled by one workspace with one key or many: it is refused beyond its share, and others are accepted', async () => {
    const { workspace } = await open({ dependencies: { memory } });
    const [attacker, neighbour] = [await workspace('a@example.com'), await workspace('b@example.com')];
    const keys = [attacker.key];
    for (let n = 0; n < 4; n++) keys.push(await attacker.owner.writeKey());
    const attacks = Array.from({ length: 40 }, (_, n) =>
      attacker.attack(PART, { withKey: keys[n % 5] ?? '' }),
    );
    await expect.poll(() => refused(attacks)).toBeGreaterThan(15);
    await expect
      .poll(() => attacks.find(({ status }) => status() === '503')?.answer())
      .toMatch(/retry-after: 1.*"unavailable"/s);
    for (let n = 0; n < 4; n++) expect(await neighbour.send(MIB)).toBe(202);
    expect(await Promise.all([neighbour.send(MIB), neighbour.send(MIB)])).toEqual([202, 202]);
    await expect.poll(() => attacker.send(KIB * 60)).toBe(202);
  });

  it('was filled by one address of a shared public key: other addresses with the key are accepted', async () => {
    const { workspace } = await open({ dependencies: { memory } });
    const shop = await workspace('a@example.com');
    const attacks = Array.from({ length: 40 }, () => shop.attack(PART, { from: '127.0.0.9' }));
    await expect.poll(() => refused(attacks)).toBeGreaterThan(15);
    for (let n = 0; n < 4; n++) expect(await shop.send(MIB)).toBe(202);
  });

  it('was filled by several workspaces together: unfinished bodies are ended, the oldest first, for a workspace below its share', async () => {
    const { workspace } = await open({ dependencies: { memory } });
    const neighbour = await workspace('b@example.com');
    const attacks: Attack[] = [];
    for (const name of ['p', 'q', 'r', 's']) {
      const attacker = await workspace(`${name}@example.com`);
      const own = Array.from({ length: 30 }, () => attacker.attack(PART));
      attacks.push(...own);
      await expect.poll(() => refused(own)).toBeGreaterThan(10);
    }
    for (let n = 0; n < 4; n++) expect(await neighbour.send(2 * MIB)).toBe(202);
  });

  it('was filled by one address without a key: a key in a body from another address is read', async () => {
    const { halfSend, post, workspace } = await open({ dependencies: { memory } });
    const { key } = await workspace('b@example.com');
    const attacks = Array.from({ length: 40 }, () =>
      halfSend('/v1/batch', ['content-length: 500000'], Buffer.alloc(200_000, ' '), '127.0.0.7'),
    );
    await expect.poll(() => refused(attacks)).toBeGreaterThan(10);
    for (let n = 0; n < 4; n++) expect(await post('/v1/batch', batchOf(400 * KIB, key))).toBe(200);
  });

  it('is released by bodies that were answered, refused or abandoned', async () => {
    const { workspace } = await open({ dependencies: { memory } });
    const { send, attack } = await workspace('a@example.com');
    for (let round = 0; round < 3; round++) {
      const attacks = Array.from({ length: 30 }, () => attack(PART));
      await expect.poll(() => refused(attacks)).toBeGreaterThan(5);
      for (const one of attacks) one.leave();
      await expect.poll(() => send(3 * MIB)).toBe(202);
    }
    expect(await Promise.all([send(2 * MIB), send(2 * MIB), send(2 * MIB)])).toEqual([202, 202, 202]);
  });
});

describe('events that the log does not confirm', () => {
  it('caused refusals for all workspaces: events of other workspaces are accepted and confirmed', async () => {
    let confirm = () => {};
    const { gateway, workspace } = await open();
    const [attacker, neighbour] = [await workspace('a@example.com'), await workspace('b@example.com')];
    const stalled = new Promise<void>((resolve) => {
      confirm = resolve;
    });
    const { log } = gateway.dependencies;
    const append = log.append.bind(log);
    let taken = 0;
    log.append = async (...asked) => {
      taken++;
      await stalled;
      return append(...asked);
    };
    const attacks = Array.from({ length: 30 }, () => attacker.send(MIB));
    await expect.poll(() => taken).toBeGreaterThan(20);
    expect(await Promise.any(attacks)).toBe(503);
    const before = taken;
    const others = Array.from({ length: 5 }, () => neighbour.send(MIB));
    await expect.poll(() => taken).toBe(before + 5);
    confirm();
    expect(await Promise.all(others)).toEqual(others.map(() => 202));
    expect(await attacker.send(MIB)).toBe(202);
  });
});
