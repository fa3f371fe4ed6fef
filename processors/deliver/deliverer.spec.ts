import {
  type Connector,
  DEFAULT_BREAKER,
  type Delivery,
  type DeliveryResult,
  type Destination,
  iso,
  NO_LOGGER,
  NO_METRICS,
  parseLadder,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Deliverer } from './deliverer.ts';

const START = Date.parse('2026-01-01T00:00:00Z');
const OK: DeliveryResult = { outcome: 'delivered', status: 200 };
const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503', status: 503 };

const PLACE: Destination = {
  id: 'place',
  version: 1,
  workspace_id: 'w1',
  name: 'n',
  type: 'scripted',
  settings: {},
  enabled: true,
  created_by: 'a1',
  created_at: iso(START),
  updated_at: iso(START),
};

function delivery(id: string, fields: Partial<Delivery> = {}): Delivery {
  return {
    id,
    workspace_id: 'w1',
    environment: 'production',
    destination_id: 'place',
    rule_id: 'rule',
    message_id: id,
    index: 0,
    created_at: iso(START),
    attempts: [],
    redrives: 0,
    event: {
      message_id: id,
      type: 'identify',
      user_id: 'u',
      timestamp: iso(START),
      received_at: iso(START),
      environment: 'production',
      workspace_id: 'w1',
    },
    ...fields,
  };
}

/** A destination that does what the test says. */
function setUp(answer: (d: Delivery) => DeliveryResult | Promise<DeliveryResult>, size = 1, maxCalls = 16) {
  const calls: { ids: string[]; version: number; signal: AbortSignal }[] = [];
  const time = { now: START };
  let unsealed = 0;
  const connector: Connector = {
    batchSize: () => size,
    async deliver(destination, deliveries, { signal }) {
      calls.push({ ids: deliveries.map(({ id }) => id), version: destination.version, signal });
      return Promise.all(deliveries.map(answer));
    },
    async close() {},
  };
  const deliverer = new Deliverer({
    connectors: {
      descriptions: new Map(),
      connector: (type) => (type === 'scripted' ? connector : undefined),
      async close() {},
    },
    unseal({ id, workspace_id, version, settings }) {
      unsealed += 1;
      if (settings.broken === true) throw new Error('no key');
      return { id, workspaceId: workspace_id, version, settings };
    },
    clock: () => time.now,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
    breaker: { ...DEFAULT_BREAKER, consecutiveFailures: 3 },
    maxCalls,
    keptAttempts: 50,
    ladder: parseLadder(['10s', '1m', '10m', '1h', '6h']),
    expiryMs: 24 * 3_600_000,
  });
  const { signal } = new AbortController();
  const run = (one: Delivery, place = PLACE, until = signal) => deliverer.deliver(one, place, until);
  return { calls, time, run, unsealings: () => unsealed };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

describe('Deliverer', () => {
  it('batches what comes in one turn, up to what the connector takes', async () => {
    const { calls, run, unsealings } = setUp(() => OK, 3);
    const done = await Promise.all(['1', '2', '3', '4'].map((id) => run(delivery(id))));
    expect(calls.map(({ ids }) => ids)).toEqual([['1', '2', '3'], ['4']]);
    expect(done.map(({ settlement }) => settlement.kind)).toEqual(Array(4).fill('delivered'));
    expect(done[0]?.delivery.attempts).toMatchObject([{ at: iso(START), outcome: 'delivered', status: 200 }]);
    expect(unsealings()).toBe(1);
  });

  it('makes no more calls at a time than allowed, and fills the next while all are busy', async () => {
    const release: (() => void)[] = [];
    const { calls, run } = setUp(() => new Promise((resolve) => release.push(() => resolve(OK))), 2, 1);
    const first = run(delivery('1'));
    await turn();
    const rest = Promise.all([run(delivery('2')), run(delivery('3'))]);
    await turn();
    expect(calls).toHaveLength(1);
    release[0]?.();
    await first;
    expect(calls.map(({ ids }) => ids)).toEqual([['1'], ['2', '3']]);
    release[1]?.();
    release[2]?.();
    await rest;
  });

  it('opens the secrets of a new version anew and never mixes versions in a call', async () => {
    const { calls, run } = setUp(() => OK, 10);
    await Promise.all([run(delivery('1')), run(delivery('2'), { ...PLACE, version: 2 })]);
    expect(calls.map(({ ids, version }) => [ids, version])).toEqual([
      [['1'], 1],
      [['2'], 2],
    ]);
  });

  it('tries once more at once after a reset connection, then climbs the ladder', async () => {
    const reset: DeliveryResult = { outcome: 'retry', reason: 'ECONNRESET', reset: true };
    const { calls, run } = setUp(() => reset);
    const { delivery: tried, settlement } = await run(delivery('1'));
    expect(calls).toHaveLength(2);
    expect(tried.attempts.map(({ at_once }) => at_once)).toEqual([undefined, true]);
    expect(settlement).toEqual({
      kind: 'retry',
      label: '10s',
      notBefore: START + 10_000,
      reason: 'ECONNRESET',
    });
  });

  it('gives up what is refused, keeping the answer', async () => {
    const refused: DeliveryResult = { outcome: 'dead', reason: 'HTTP 400', status: 400, response: 'no' };
    const { run } = setUp(() => refused);
    const { delivery: tried, settlement } = await run(delivery('1'));
    expect(settlement).toEqual({ kind: 'dead', cause: 'destination', reason: 'HTTP 400' });
    expect(tried.attempts).toMatchObject([{ outcome: 'dead', status: 400, response: 'no' }]);
  });

  it('an open circuit puts deliveries off without a call, for longer the older they are, and lets one probe', async () => {
    const place: { answer: DeliveryResult } = { answer: DOWN };
    const { calls, time, run } = setUp(() => place.answer);
    for (const id of ['1', '2', '3']) await run(delivery(id));
    const young = await run(delivery('4'));
    const old = await run(delivery('5', { created_at: iso(START - 5 * 60_000) }));
    expect(calls).toHaveLength(3);
    expect(young.delivery.attempts).toEqual([]);
    expect(young.settlement).toMatchObject({ kind: 'retry', label: '10s', reason: 'circuit open' });
    expect(old.settlement).toMatchObject({ kind: 'retry', label: '10m', reason: 'circuit open' });

    time.now += DEFAULT_BREAKER.coolDownMs;
    place.answer = OK;
    const probed = await Promise.all([run(delivery('6')), run(delivery('7'))]);
    expect(probed.map(({ settlement }) => settlement.kind)).toEqual(['delivered', 'retry']);
    expect((await run(delivery('8'))).settlement.kind).toBe('delivered');
  });

  it('an open circuit lets no delivery outlive its expiry', async () => {
    const { time, run } = setUp(() => DOWN);
    for (const id of ['1', '2', '3']) await run(delivery(id));
    time.now += 1;
    const expired = await run(delivery('4', { created_at: iso(START - 24 * 3_600_000) }));
    expect(expired.settlement).toMatchObject({ kind: 'dead', cause: 'expired' });
  });

  it('a refusal shows that the destination is there: it does not open the circuit', async () => {
    const { calls, run } = setUp(() => ({ outcome: 'dead', reason: 'HTTP 400' }));
    for (const id of ['1', '2', '3', '4', '5']) await run(delivery(id));
    expect(calls).toHaveLength(5);
  });

  it('retries when a connector throws, or cannot be given its settings', async () => {
    const thrown = setUp(() => Promise.reject(new Error('bug')));
    expect((await thrown.run(delivery('1'))).settlement).toMatchObject({ reason: 'the connector failed' });

    const broken = { ...PLACE, settings: { broken: true } };
    const sealed = await setUp(() => OK).run(delivery('1'), broken);
    expect(sealed.settlement).toMatchObject({ kind: 'retry', reason: 'the settings cannot be unsealed' });
  });

  it('gives up at once what no connector knows', async () => {
    const { settlement } = await setUp(() => OK).run(delivery('1'), { ...PLACE, type: 'unknown' });
    expect(settlement).toMatchObject({ kind: 'dead', reason: 'no connector of type unknown' });
  });

  it('stops waiting when the partition is lost, and aborts a call once nobody waits for it', async () => {
    const { calls, run } = setUp(() => new Promise(() => {}), 2);
    const [one, other] = [new AbortController(), new AbortController()];
    const results = [run(delivery('1'), PLACE, one.signal), run(delivery('2'), PLACE, other.signal)].map(
      (promise) => promise.catch((error: unknown) => error),
    );
    await turn();
    one.abort();
    expect(await results[0]).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(false);
    other.abort();
    expect(await results[1]).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(true);
  });
});
