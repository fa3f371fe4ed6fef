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
  type StageContext,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Deliverer, type DelivererDependencies } from './deliverer.ts';
import { Interest } from './interest.ts';
import { Places } from './places.ts';

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
function setUp(
  answer: (d: Delivery) => DeliveryResult | Promise<DeliveryResult>,
  { size = () => 1, maxCalls = 16 }: { size?: () => number; maxCalls?: number } = {},
) {
  const calls: { ids: string[]; version: number; signal: AbortSignal }[] = [];
  const time = { now: START, elapsed: 0 };
  const known = new Map([[PLACE.id, PLACE]]);
  const errors: string[] = [];
  let unsealed = 0;
  const connector: Connector = {
    batchSize: size,
    async deliver(destination, deliveries, { signal }) {
      calls.push({ ids: deliveries.map(({ id }) => id), version: destination.version, signal });
      return Promise.all(deliveries.map(answer));
    },
    async close() {},
  };
  const dependencies: DelivererDependencies = {
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
    current: (id) => known.get(id),
    clock: () => time.now,
    elapsed: () => time.elapsed,
    metrics: NO_METRICS,
    logger: { ...NO_LOGGER, error: (_about: object, message: string) => void errors.push(message) },
    breaker: { ...DEFAULT_BREAKER, consecutiveFailures: 3 },
    maxCalls,
    keptAttempts: 50,
    ladder: parseLadder(['10s', '1m', '10m', '1h', '6h']),
    expiryMs: 24 * 3_600_000,
  };
  const deliverer = new Deliverer(dependencies);
  const { signal } = new AbortController();
  const run = (one: Delivery, place = PLACE, until = signal) => {
    known.set(place.id, place);
    return deliverer.deliver(one, place, { signal: until });
  };
  /** Begins in a quick lane and lets its patience pass. */
  const handOver = async (one: Delivery, context: StageContext = { signal }) => {
    const soon = deliverer.deliverSoon(one, PLACE, context, 500);
    await turn();
    time.elapsed += 501;
    return soon;
  };
  const join = (one: Delivery, until = signal) => deliverer.join(one, { signal: until });
  return {
    calls,
    time,
    known,
    errors,
    dependencies,
    deliverer,
    run,
    handOver,
    join,
    unsealings: () => unsealed,
  };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

describe('Deliverer', () => {
  it('batches what comes in one turn, up to what the connector takes', async () => {
    const { calls, run, unsealings } = setUp(() => OK, { size: () => 3 });
    const done = await Promise.all(['1', '2', '3', '4'].map((id) => run(delivery(id))));
    expect(calls.map(({ ids }) => ids)).toEqual([['1', '2', '3'], ['4']]);
    expect(done.map(({ settlement }) => settlement.kind)).toEqual(Array(4).fill('delivered'));
    expect(done[0]?.delivery.attempts).toMatchObject([{ at: iso(START), outcome: 'delivered', status: 200 }]);
    expect(unsealings()).toBe(1);
  });

  it('makes no more calls at a time than allowed, and fills the next while all are busy', async () => {
    const release: (() => void)[] = [];
    const { calls, run } = setUp(() => new Promise((resolve) => release.push(() => resolve(OK))), {
      size: () => 2,
      maxCalls: 1,
    });
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

  it('what waited for a call goes by the destination as it is when the call begins', async () => {
    const release: (() => void)[] = [];
    const held = () => new Promise<DeliveryResult>((resolve) => release.push(() => resolve(OK)));
    const { calls, known, run } = setUp(held, { maxCalls: 1 });
    const first = run(delivery('1'));
    await turn();
    const [second, third] = [run(delivery('2')), run(delivery('3'))];
    await turn();
    known.set('place', { ...PLACE, version: 2 });
    release[0]?.();
    await first;
    known.set('place', { ...PLACE, version: 3, enabled: false });
    release[1]?.();
    expect((await second).settlement).toEqual({ kind: 'delivered' });
    expect((await third).settlement).toMatchObject({ kind: 'dead', reason: 'the destination is disabled' });
    expect(calls.map(({ ids, version }) => [ids, version])).toEqual([
      [['1'], 1],
      [['2'], 2],
    ]);
  });

  it('a clock that is set back holds no circuit open and no patience up', async () => {
    const place: { answer: DeliveryResult | Promise<DeliveryResult> } = { answer: DOWN };
    const { time, run, handOver } = setUp(() => place.answer);
    for (const id of ['1', '2', '3']) await run(delivery(id));
    time.now -= 3_600_000;
    time.elapsed += DEFAULT_BREAKER.coolDownMs;
    place.answer = OK;
    expect((await run(delivery('4'))).settlement.kind).toBe('delivered');
    place.answer = new Promise(() => {});
    expect((await handOver(delivery('5'))).settlement.kind).toBe('slow');
  });

  it('tells once per version that settings cannot be unsealed', async () => {
    const { run, errors, unsealings } = setUp(() => OK);
    const broken = { ...PLACE, settings: { broken: true } };
    for (const id of ['1', '2', '3']) await run(delivery(id), broken);
    await run(delivery('4'), { ...broken, version: 2 });
    expect(errors).toHaveLength(2);
    expect(unsealings()).toBe(2);
  });

  it('a connector that throws when asked for its batch size ended all stages: it is asked for one at a time', async () => {
    const { run, errors } = setUp(() => OK, {
      size: () => {
        throw new Error('bug');
      },
    });
    expect((await run(delivery('1'))).settlement.kind).toBe('delivered');
    expect(errors).toHaveLength(1);
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

    time.elapsed += DEFAULT_BREAKER.coolDownMs;
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
    const { calls, run } = setUp(() => new Promise(() => {}), { size: () => 2 });
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

describe('a call that takes too long for its lane', () => {
  /** A destination whose calls hang until the test lets them go. */
  function setUpHanging() {
    const release: ((result: DeliveryResult) => void)[] = [];
    const set = setUp(() => new Promise((resolve) => release.push(resolve)));
    return { ...set, release };
  }

  it('is joined by the slow lane: one call is made', async () => {
    const { calls, release, handOver, join } = setUpHanging();
    expect((await handOver(delivery('1'))).settlement.kind).toBe('slow');
    const joined = join(delivery('1'));
    release[0]?.(OK);
    expect(await joined).toMatchObject({
      delivery: { attempts: [{ outcome: 'delivered' }] },
      settlement: { kind: 'delivered' },
    });
    expect(calls).toHaveLength(1);
  });

  it('was forgotten a minute after it ended, and posted again: its result waits until it is taken, once', async () => {
    const { time, release, handOver, join } = setUpHanging();
    await handOver(delivery('1'));
    release[0]?.(OK);
    time.elapsed += 3_600_000;
    await turn();
    expect(await join(delivery('1'))).toMatchObject({ settlement: { kind: 'delivered' } });
    expect(await join(delivery('1'))).toBeUndefined();
  });

  it('is never taken for another try or drive of the same delivery', async () => {
    const { release, handOver, join } = setUpHanging();
    await handOver(delivery('1'));
    release[0]?.(OK);
    expect(await join(delivery('1', { redrives: 1, created_at: iso(START + 1) }))).toBeUndefined();
    expect(await join(delivery('1', { created_at: iso(START + 1) }))).toBeUndefined();
    const attempts = [{ at: iso(START), outcome: 'retry' as const, duration_ms: 1 }];
    expect(await join(delivery('1', { attempts }))).toBeUndefined();
    expect(await join(delivery('1'))).toMatchObject({ settlement: { kind: 'delivered' } });
  });

  it('was aborted and posted again at a graceful stop: it outlives the lane it came from', async () => {
    const { calls, release, handOver, join } = setUpHanging();
    const quick = new AbortController();
    await handOver(delivery('1'), { signal: quick.signal });
    quick.abort();
    const joined = join(delivery('1'));
    expect(calls[0]?.signal.aborted).toBe(false);
    release[0]?.(OK);
    expect(await joined).toMatchObject({ settlement: { kind: 'delivered' } });
    expect(calls).toHaveLength(1);
  });

  it('stays with its lane while the stages stop: nothing waits behind it', async () => {
    const { calls, time, release, deliverer } = setUpHanging();
    const { signal } = new AbortController();
    const stopping = new AbortController();
    const soon = deliverer.deliverSoon(delivery('1'), PLACE, { signal, stopping: stopping.signal }, 500);
    await turn();
    stopping.abort();
    time.elapsed += 501;
    await new Promise((resolve) => setTimeout(resolve, 60)); // longer than patience looks away
    release[0]?.(OK);
    expect((await soon).settlement.kind).toBe('delivered');
    expect(calls).toHaveLength(1);
  });

  it('is aborted when the slow lane that joined it leaves, and begins again', async () => {
    const { calls, release, handOver, join, run } = setUpHanging();
    await handOver(delivery('1'));
    const slow = new AbortController();
    const joined = join(delivery('1'), slow.signal).catch((error: unknown) => error);
    slow.abort();
    expect(await joined).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(await join(delivery('1'))).toBeUndefined();
    const again = run(delivery('1'));
    await turn();
    release[1]?.(OK);
    expect((await again).settlement.kind).toBe('delivered');
  });

  it('is not begun twice when its entry is taken again before it came to the slow lane', async () => {
    const { calls, handOver } = setUpHanging();
    await handOver(delivery('1'));
    expect((await handOver(delivery('1'))).settlement.kind).toBe('slow');
    expect(calls).toHaveLength(1);
  });

  it('what found no room to begin is joined as slow', async () => {
    const { calls, handOver, join, deliverer } = setUpHanging();
    const { signal } = new AbortController();
    const filling = Array.from({ length: 16 }, (_, i) =>
      deliverer.deliverSoon(delivery(`f${i}`), PLACE, { signal }, 100_000),
    );
    await turn();
    expect((await handOver(delivery('1'))).settlement.kind).toBe('slow');
    expect([undefined, 'slow']).toContain((await join(delivery('1')))?.settlement.kind);
    expect(calls).toHaveLength(filling.length);
  });
});

describe('the places of a process', () => {
  it('kept the opened secrets of every destination for ever: forgets what is idle for long or gone, not what is busy', async () => {
    const { dependencies, known, time } = setUp(() => new Promise(() => {}));
    const places = new Places(dependencies);
    const busy = places.callsTo('place');
    known.set('idle', { ...PLACE, id: 'idle' });
    places.callsTo('idle');
    places.callsTo('gone');
    const waiting = busy.attempt(delivery('1'), new Interest(new AbortController().signal));
    expect(await Promise.race([waiting, turn()])).toBeUndefined();
    time.elapsed += 1_000;
    places.sweep();
    expect(places.size).toBe(2);
    time.elapsed += 11 * 60_000;
    places.sweep();
    expect(places.size).toBe(1);
    expect(places.callsTo('place')).toBe(busy);
  });
});
