// Runs alone: it compares the throughput of good clients with and without bad ones.

import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Dice } from '../chaos/dice.ts';
import { measured } from '../helpers/measured.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { ATTACKS, mayAnswer } from './attacks.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const ROUNDS = LONG ? 500 : 12;
const WINDOW_MS = LONG ? 60_000 : 4_000;
const SEED = Number(process.env.TRIBUTARY_TEST_SEED ?? Date.now() % 1_000_000);

/** Calls a second of good clients, in total. */
const OFFERED = 150;
/** The share of them that is answered beside attacks. */
const KEPT = 0.8;
/** Attacks a second of bad clients. */
const ATTACKS_A_SECOND = 60;
const LINGERING = 120;
const MAX_GROWTH_MB = 250;

/** Any bytes on a connection are refused or closed, in bounded memory, without an effect on good clients. */
describe(`the HTTP surface under fire (seed ${SEED})`, () => {
  let tributary: Tributary;
  let port: number;
  let paths: readonly string[];
  beforeAll(async () => {
    tributary = await startTributary();
    port = Number(new URL(tributary.url).port);
    const events = `/api/v1/workspaces/${tributary.workspaceId}/events`;
    paths = ['/v1/track', '/v1/batch', `${events}/track`, `${events}/batch`, '/cdp/v1/users'];
  });
  afterAll(() => tributary.remove());

  const dice = new Dice(SEED);
  const draw = (to: number) => Math.floor(dice.between(0, to));
  const KINDS = Object.keys(ATTACKS);
  /** The statuses of answers to an attack that are not allowed. */
  const wrongAnswers = async (kind: string, path: string) => {
    const sent = ATTACKS[kind]?.({ path, writeKey: tributary.writeKey }, draw) ?? Buffer.alloc(0);
    const statuses = await exchange(port, sent);
    return statuses
      .filter((status) => !mayAnswer(status, kind, path))
      .map((status) => ({ status, kind, path }));
  };

  it.each(KINDS)('%s is refused, mended or the connection closed', async (kind) => {
    for (let round = 0; round < ROUNDS; round++)
      expect(await wrongAnswers(kind, paths[round % paths.length] ?? '/')).toEqual([]);
  });

  /** The share of good calls that are answered beside attacks, and the megabytes that these leave. */
  async function besideFire() {
    const quiet = await goodCalls(WINDOW_MS);
    const before = megabytes(tributary.pid);
    const lingering = openLingering(port, '/v1/batch', LINGERING);
    const fire = new AbortController();
    const firing = keepFiring(fire.signal);
    const underFire = await goodCalls(WINDOW_MS);
    fire.abort();
    const attacks = await firing;
    lingering.close();
    const growth = megabytes(tributary.pid) - before;
    console.info(
      `good calls: ${quiet} without, ${underFire} beside ${attacks} attacks and ${LINGERING} lingering connections; memory ${growth} MB more`,
    );
    return { kept: underFire / quiet, attacks, growth };
  }

  it('well-behaved clients keep their throughput, and memory stays bounded', async () => {
    await goodCalls(1_000); // warm
    const figures = await measured(besideFire, ({ kept }) => kept >= KEPT);
    expect(figures.kept).toBeGreaterThanOrEqual(KEPT);
    expect(figures.attacks).toBeGreaterThan(0.3 * ATTACKS_A_SECOND * (WINDOW_MS / 1_000));
    expect(figures.growth).toBeLessThan(MAX_GROWTH_MB);
  }, 300_000);

  it('the gateway is healthy after all attacks, without an unexpected failure', async () => {
    expect(await goodCall()).toBe(true);
    expect((await fetch(`${tributary.url}/readyz`)).status).toBe(200);
    expect(tributary.log()).not.toContain('failed unexpectedly');
  });

  async function goodCall(): Promise<boolean> {
    const response = await fetch(`${tributary.url}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tributary.writeKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ userId: 'u', event: 'Good' }),
    });
    await response.arrayBuffer();
    return response.status === 200;
  }

  /** The number of calls offered in this period, ms, and answered within it. */
  async function goodCalls(ms: number): Promise<number> {
    const end = performance.now() + ms;
    let done = 0;
    const client = async () => {
      while (performance.now() < end) {
        const next = performance.now() + 8_000 / OFFERED;
        if ((await goodCall()) && performance.now() <= end) done += 1;
        await sleep(Math.max(0, next - performance.now()));
      }
    };
    await Promise.all(Array.from({ length: 8 }, client));
    return done;
  }

  /** Starts attacks one after the other; resolves to their number. */
  async function keepFiring(signal: AbortSignal): Promise<number> {
    const under: ReturnType<typeof wrongAnswers>[] = [];
    while (!signal.aborted) {
      under.push(wrongAnswers(KINDS[draw(KINDS.length)] ?? '', paths[draw(paths.length)] ?? '/'));
      await sleep(1_000 / ATTACKS_A_SECOND);
    }
    const answers = await Promise.all(under);
    expect(answers.flat()).toEqual([]);
    return answers.length;
  }
});

/** The memory of a process on this machine. */
function megabytes(pid: number): number {
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kilobytes) / 1_024);
}

/** The longest wait for an answer before the connection is closed, ms. */
const PATIENCE_MS = 5_000;

/** Sends bytes over a new connection; returns the statuses received until it was closed, maybe none. */
function exchange(port: number, bytes: Buffer): Promise<readonly number[]> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port });
    const chunks: Buffer[] = [];
    const finish = () => {
      clearTimeout(timer);
      resolve(statusesIn(Buffer.concat(chunks).toString('latin1')));
    };
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`neither answered nor closed within ${PATIENCE_MS} ms`));
    }, PATIENCE_MS);
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {}); // closed by the server during the send
    socket.on('close', finish);
    socket.write(bytes);
  });
}

function statusesIn(answers: string): readonly number[] {
  return [...answers.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) => Number(status));
}

/** Connections that never finish sending: endless headers, a body byte by byte, or nothing at all. */
function openLingering(port: number, path: string, many: number): { close(): void } {
  const starts = [
    '',
    `POST ${path} HTTP/1.1\r\nhost: x\r\n`,
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 99999\r\n\r\n{`,
  ];
  const sockets = Array.from({ length: many }, (_, at): Socket => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => {});
    socket.write(starts[at % starts.length] ?? '');
    return socket;
  });
  const dripping = setInterval(() => {
    sockets.forEach((socket, at) => {
      if (at % starts.length === 2 && socket.writable) socket.write(' ');
    });
  }, 200);
  return {
    close() {
      clearInterval(dripping);
      for (const socket of sockets) socket.destroy();
    },
  };
}
