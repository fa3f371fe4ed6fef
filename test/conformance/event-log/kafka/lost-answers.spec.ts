import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import type { EventLog } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, readAll } from '../suite/log-contents.ts';
import { copyOf, copyStage, flowStage } from '../suite/stages.ts';
import { type Installation, install } from './installation/installation.ts';

const HOST = '127.0.0.1';
const PRODUCE = 0;
const END_TRANSACTION = 26;
const KEYS = 7;
const ENTRIES = 400;

type Loss = 'cut' | 'silence';

/** A request without an answer takes its whole timeout, 20 s of a commit. */
const LOSSES: readonly Loss[] = process.env.TRIBUTARY_TEST_LONG ? ['cut', 'silence'] : ['cut'];

describe.skipIf(engines() === undefined)('an answer of Kafka that is lost', () => {
  let installed: Installation;
  let proxies: Proxy[] = [];
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', 2);
  });
  afterEach(async () => {
    await installed.dispose();
    for (const proxy of proxies) proxy.close();
    proxies = [];
  });

  async function openThrough(apiKey: number, how: Loss) {
    const proxy = await startProxy(installed.brokers, apiKey, how);
    proxies.push(proxy);
    const connection = { brokers: [`${HOST}:${proxy.port}`], clientId: 'tests' };
    const { log } = await installed.open({ connection });
    return { proxy, log };
  }

  const stages = {
    batch: copyStage({ maxEntries: 10 }),
    flow: flowStage(async (entry) => [copyOf(entry)]),
  };
  it.each(LOSSES.flatMap((how) => [['batch', how] as const, ['flow', how] as const]))(
    'to the commit of a %s stage, by %s: its records are there once, in order',
    { timeout: 120_000 },
    async (kind, how) => {
      const { log } = await installed.open();
      const { proxy, log: lossy } = await openThrough(END_TRANSACTION, how);
      const run = await lossy.run(stages[kind]);
      for (let n = 0; n < ENTRIES; n += 20) {
        await log.append(SOURCE, numbered(n, 20));
        await setTimeout(50);
      }
      await eventually(async () => (await copies(log)).length >= ENTRIES, 'not all were copied', 100_000);
      await run.stop();
      expect(await copies(log)).toEqual(inOrder());
      expect(proxy.lost).toBeGreaterThan(1);
      console.log(`${kind}, ${how}: ${proxy.lost} answers were lost`);
    },
  );

  it.each(LOSSES)(
    'to an append, by %s: its caller hears of it, and what is confirmed is there',
    { timeout: 120_000 },
    async (how) => {
      const { log } = await installed.open();
      const { proxy, log: lossy } = await openThrough(PRODUCE, how);
      const confirmed: string[] = [];
      let failed = 0;
      for (let n = 0; n < 60; n++) {
        try {
          await lossy.append(SOURCE, numbered(n, 1));
          confirmed.push(String(n));
        } catch (error) {
          expect(error).toMatchObject({ code: 'unavailable' });
          failed += 1;
        }
      }
      expect(proxy.lost).toBeGreaterThan(1);
      const values = (await readAll(log, SOURCE)).map(({ value }) => value);
      console.log(
        `${how}: ${proxy.lost} answers were lost, ${failed} appends failed, ${values.length} records`,
      );
      expect(values).toEqual(expect.arrayContaining(confirmed));
      expect(new Set(values).size).toBe(values.length);
    },
  );
});

function numbered(from: number, count: number) {
  return Array.from({ length: count }, (_, i) => ({
    key: `k${(from + i) % KEYS}`,
    value: String(from + i),
    headers: {},
  }));
}

/** The copied values, by key and else in the order of the log. */
async function copies(log: EventLog): Promise<readonly string[]> {
  const found = await readAll(log, TARGET);
  return found.toSorted((a, b) => a.key.localeCompare(b.key)).map(({ key, value }) => `${key} ${value}`);
}

function inOrder(): readonly string[] {
  return numbered(0, ENTRIES)
    .toSorted((a, b) => a.key.localeCompare(b.key))
    .map(({ key, value }) => `${key} ${value}`);
}

interface Proxy {
  readonly port: number;
  readonly lost: number;
  close(): void;
}

/** One of so many answers is lost. */
const LOST_EACH = 4;
const MOST_LOST: Readonly<Record<Loss, number>> = { cut: Number.POSITIVE_INFINITY, silence: 2 };

/**
 * A proxy of one broker, with its own address in place of the broker's in all answers. It loses some answers to one kind of
 * request, which the broker has carried out: it closes the connection instead, or lets nothing pass on it from then on, as a
 * firewall that forgets its state.
 */
async function startProxy(brokers: string, apiKey: number, how: Loss): Promise<Proxy> {
  const brokerPort = Number(brokers.split(':').at(-1));
  const sockets = new Set<Socket>();
  let answers = 0;
  let lost = 0;
  const server = createServer((client) => {
    const broker = connect(brokerPort, HOST);
    const asked = new Set<number>();
    let isSilent = false;
    const close = () => {
      client.destroy();
      broker.destroy();
    };
    for (const socket of [client, broker]) {
      sockets.add(socket);
      socket.on('error', close).on('close', close);
    }
    eachFrame(client, (frame) => {
      if (isSilent) return;
      if (frame.readInt16BE(4) === apiKey) asked.add(frame.readInt32BE(8));
      broker.write(frame);
    });
    eachFrame(broker, (frame) => {
      if (isSilent) return;
      if (asked.delete(frame.readInt32BE(4)) && ++answers % LOST_EACH === 0 && lost < MOST_LOST[how]) {
        lost += 1;
        if (how === 'cut') close();
        else isSilent = true;
      } else client.write(readdressed(frame, brokerPort, (server.address() as AddressInfo).port));
    });
  });
  server.listen(0, HOST);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get lost() {
      return lost;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Calls back with each message of the protocol, its length included. */
function eachFrame(socket: Socket, onFrame: (frame: Buffer) => void): void {
  let rest = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const end = 4 + rest.readInt32BE(0);
      onFrame(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
  });
}

/** The message with another port behind each host. */
function readdressed(frame: Buffer, from: number, to: number): Buffer {
  const changed = Buffer.from(frame);
  for (let at = changed.indexOf(HOST); at >= 0; at = changed.indexOf(HOST, at + 1)) {
    const port = at + HOST.length;
    if (port + 4 <= changed.length && changed.readInt32BE(port) === from) changed.writeInt32BE(to, port);
  }
  return changed;
}
