// Runs alone in the long form: how old a repeated delivery may be is a time, which a busy machine stretches.
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  DEFAULT_RETRY_STEPS,
  formatPosition,
  parseRetrySchedule,
  readDelivery,
  readDeliveryReference,
  retryTopic,
  TOPIC,
} from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { onLoopback } from '../../helpers/on-loopback.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { forwardTo, type WebhookBody, type WebhookDelivery } from '../../helpers/webhook.ts';

const KILLED_DELIVERIES = 100_000;
const KILLS = 12;
const SENT_AT_ONCE = 500;

/** A busy machine may take more than ten seconds for a call, which must not lead to a retry. */
const PATIENT = { TRIBUTARY_DELIVERY_TIMEOUT: '60s' };
/** Concurrent calls to one destination, by default. */
const CALLS_AT_A_TIME = 16;
/**
 * The longest time that a deferred delivery may keep completed ones behind it from being committed; see
 * docs/decisions/0016.
 */
const STORED_WITHIN_MS = 13_000;

/**
 * Destinations that answer at once or after at most this many ms: three accept everything, one fails, one
 * rejects.
 */
const DESTINATIONS = [
  { status: 204, delayMs: 0, batchSize: 1 },
  { status: 204, delayMs: 20, batchSize: 1 },
  { status: 204, delayMs: 0, batchSize: 20 },
  { status: 500, delayMs: 0, batchSize: 1 },
  { status: 400, delayMs: 0, batchSize: 1 },
];

/** Fast and slow destinations, with kills: every delivery arrives, and few arrive twice. */
describe('Paced and killed', () => {
  const recorders: Recorder[] = [];
  let tributary: Tributary;
  afterEach(async () => {
    await tributary.remove();
    for (const recorder of recorders.splice(0)) await recorder.close();
  });

  it(`no delivery of ${KILLED_DELIVERIES} is lost through SIGKILL (${KILLS}x), and the few repeated ones keep their keys`, async () => {
    tributary = await startTributary({ env: PATIENT });
    const events = KILLED_DELIVERIES / DESTINATIONS.length;
    for (const { status, delayMs, batchSize } of DESTINATIONS) {
      const recorder = await startRecorder(status, delayMs);
      recorders.push(recorder);
      const settings = { url: recorder.url, batch_size: batchSize };
      await forwardTo(tributary.owner, recorder.url, 'Killed', { settings });
    }
    const good = recorders.filter((_, n) => DESTINATIONS[n]?.status === 204);
    const taken = () => good.reduce((sum, { brought }) => sum + brought.length, 0);
    const sending = send(events);
    const kills: Kill[] = [];
    const underWay: number[] = [];
    for (let kill = 0; kill < KILLS; kill++) {
      // At a random point of its part of the run, so that work is in flight at any speed of the machine.
      const share = ((kill + 0.1 + 0.8 * Math.random()) / KILLS) * 0.9;
      await eventually(taken, (count) => count >= share * events * good.length, 400_000);
      await sleep(Math.random() * 30);
      const at = Date.now();
      await tributary.kill();
      underWay.push(inFlight(good, at));
      kills.push({ at, startedAt: Date.now() });
      tributary = await startTributary({ folder: tributary.folder, env: PATIENT });
    }
    await sending;
    const fewest = () => Math.min(...good.map(({ brought }) => new Set(brought.map(({ id }) => id)).size));
    await eventually(fewest, (count) => count >= events, 400_000);

    // Each kill repeats fewer deliveries than were in flight, and nothing else is repeated.
    const repeats = good.map(({ brought }) => repeatsOf(brought, kills));
    const told = kills.map((_, n) => {
      const all = repeats.flatMap(({ byKill }) => byKill[n] ?? []);
      const oldestMs = Math.max(0, ...all.map(({ beforeMs }) => beforeMs));
      return { repeated: all.length, of: underWay[n] ?? 0, oldestMs };
    });
    const lines = told.map(
      ({ repeated, of, oldestMs }) => `${repeated} of ${of}, taken ${oldestMs} ms before at most`,
    );
    console.log(
      `${events * DESTINATIONS.length} deliveries, ${KILLS} kills repeated:\n  ${lines.join('\n  ')}`,
    );
    expect(repeats.flatMap(({ unexplained }) => unexplained)).toEqual([]);
    for (const { repeated, of, oldestMs } of told) {
      expect(repeated).toBeLessThan(of);
      expect(oldestMs).toBeLessThan(STORED_WITHIN_MS);
    }

    // One delivery for each event and destination, always under the same key.
    const routed = await idsIn([TOPIC.deliveries]);
    expect(routed).toHaveLength(events * DESTINATIONS.length);
    expect(new Set(routed).size).toBe(events * DESTINATIONS.length);
    for (const { brought } of recorders) {
      const ids = new Map(brought.map(({ id, messageId }) => [messageId, id]));
      expect(new Set(brought.map(({ id }) => id)).size).toBe(ids.size);
    }
    for (const { brought } of [good[0], good[1]].map((one) => one ?? { brought: [] }))
      expect(brought.filter(({ id, callId }) => id !== callId)).toEqual([]);

    // Every event is delivered, in a retry topic or dead-lettered; and a notice is sent.
    const delivered = good.flatMap(({ brought }) => [...new Set(brought.map(({ id }) => id))]);
    const listed = (status: string) =>
      eventually(
        () => all(`status=${status}`),
        ({ length }) => length >= events,
        120_000,
      );
    const dead = (await listed('dead')).map(({ id }) => id);
    const retrying = (await listed('retrying')).map(({ id }) => id);
    const waiting = new Set(
      await idsIn(parseRetrySchedule(DEFAULT_RETRY_STEPS).map(({ label }) => retryTopic(label))),
    );
    const buried = await idsIn([TOPIC.deliveriesDead]);
    console.log(
      `of ${routed.length}: ${delivered.length} delivered, ${retrying.length} in a retry topic, ${dead.length} dead`,
    );
    expect(buried.toSorted()).toEqual(dead.toSorted());
    expect(retrying.filter((id) => !waiting.has(id))).toEqual([]);
    expect([...delivered, ...retrying, ...dead].toSorted()).toEqual(routed.toSorted());
    expect([delivered.length, retrying.length, dead.length]).toEqual([events * good.length, events, events]);
  }, 900_000);

  /** Sends this many events, through outages of the server: batches without an answer are sent again. */
  async function send(events: number): Promise<void> {
    for (let sent = 0; sent < events; ) {
      const batch = Array.from({ length: Math.min(SENT_AT_ONCE, events - sent) }, (_, n) => {
        const id = `k${sent + n}`;
        return { type: 'track', event: 'Killed', user_id: id, message_id: id };
      });
      const status = await tributary.producer.call('POST', './events/batch', { batch }).then(
        (answer) => answer.status,
        () => 503,
      );
      if (status === 202) sent += batch.length;
      else if (status === 503) await sleep(50);
      else throw new Error(`a batch was answered ${status}`);
    }
  }

  /** Deliveries made shortly before a kill, with positions that may not have been committed yet. */
  function inFlight(good: readonly Recorder[], killedAt: number): number {
    const late = good.map(
      ({ brought }) => brought.filter(({ at }) => at > killedAt - STORED_WITHIN_MS).length,
    );
    return late.reduce((sum, count) => sum + count, CALLS_AT_A_TIME * good.length);
  }

  /** Ids of the deliveries in topics, with duplicates. Only the first record of a delivery has its id. */
  async function idsIn(topics: readonly string[]): Promise<readonly string[]> {
    const first = new Map(
      (await entriesOf(tributary, TOPIC.deliveries)).map(({ position, value }) => [
        formatPosition(position),
        readDelivery(value).id,
      ]),
    );
    const found: string[] = [];
    for (const topic of topics)
      for (const { position, value } of await entriesOf(tributary, topic))
        found.push(first.get(readDeliveryReference(value)?.of ?? formatPosition(position)) ?? '');
    return found;
  }

  /** Every delivery of a list, page by page. */
  async function all(query: string): Promise<readonly { id: string }[]> {
    return (await tributary.owner.allPages(`./deliveries?limit=1000&${query}`)).flat();
  }
});

/** Identifies one attempt of a delivery. */
interface Brought {
  readonly id: string;
  readonly messageId: string;
  readonly attempt: number;
  /** The Standard Webhooks id of its call: for a single delivery, the delivery's own id. */
  readonly callId: string;
  /** When the call was read, epoch ms. */
  readonly at: number;
}

/** A webhook that keeps so little of a call that a test can hold a hundred thousand of them. */
interface Recorder {
  readonly url: string;
  /** In order of arrival. */
  readonly brought: readonly Brought[];
  close(): Promise<void>;
}

/** Answers every call with this status, each after a random delay of at most `delayMs`. */
async function startRecorder(status: number, delayMs = 0): Promise<Recorder> {
  const brought: Brought[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const at = Date.now();
      const callId = String(request.headers['webhook-id']);
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as WebhookBody;
      const deliveries: readonly WebhookDelivery[] = body.deliveries ?? [body];
      for (const { id, attempt, event } of deliveries)
        brought.push({ id, messageId: event.message_id, attempt, callId, at });
      const answer = () => void response.writeHead(status).end();
      if (delayMs === 0) answer();
      else setTimeout(answer, Math.random() * delayMs);
    });
  });
  const { url, close } = await onLoopback(server);
  return { url: `${url}/hook`, brought, close };
}

/** One kill: its time, and the start of the next process. Epoch ms. */
interface Kill {
  readonly at: number;
  readonly startedAt: number;
}

/** A delivery that was accepted and repeated: the time from its acceptance to the kill, ms. */
interface Repeat {
  readonly id: string;
  readonly beforeMs: number;
}

interface Repeats {
  /** The repeats caused by each kill. */
  readonly byKill: readonly (readonly Repeat[])[];
  /** Ids of repeats without a kill in between. */
  readonly unexplained: readonly string[];
}

/** Repeated deliveries at a destination that accepts everything. `kills` are in order. */
function repeatsOf(brought: readonly Brought[], kills: readonly Kill[]): Repeats {
  const byKill = kills.map((): Repeat[] => []);
  const unexplained: string[] = [];
  const lastAt = new Map<string, number>();
  for (const { id, at } of brought) {
    const before = lastAt.get(id);
    lastAt.set(id, at);
    if (before === undefined) continue;
    const index = kills.findIndex(({ startedAt }) => before <= startedAt && startedAt <= at);
    const kill = kills[index];
    if (kill === undefined) unexplained.push(id);
    else byKill[index]?.push({ id, beforeMs: Math.max(0, kill.at - before) });
  }
  return { byKill, unexplained };
}
