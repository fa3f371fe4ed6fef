import { type DeliveryResult, iso } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { arrived, delivery, OK, PLACE, START, setUp, setUpHanging, turn } from './samples.ts';

describe('what a destination has no room for', () => {
  it('is put aside once it would wait for longer than the shortest retry topic', async () => {
    const { begin, time, deliverer } = setUpHanging();
    const held = [begin('1'), begin('2')];
    await turn();
    time.elapsed += 5_000;
    expect(deliverer.putAside(arrived(delivery('3')), PLACE)).toBeUndefined();
    time.elapsed += 5_000;
    const aside = deliverer.putAside(arrived(delivery('3')), PLACE);
    expect(aside?.settlement).toEqual({ kind: 'aside', label: '10s', turn: START + 20_000, since: START });
    expect(aside?.delivery.attempts).toEqual([]);
    expect(held).toHaveLength(2);
  });

  it('waits the longer the more was put aside before it, and keeps its turn', async () => {
    const { begin, time, deliverer } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    const turns = Array.from({ length: 9 }, (_, n) => deliverer.putAside(arrived(delivery(`${n}`)), PLACE));
    expect(turns.map((one) => (one?.settlement.kind === 'aside' ? one.settlement.label : ''))).toEqual([
      ...Array(4).fill('10s'),
      ...Array(5).fill('1m'),
    ]);
    time.now += 60_000;
    const again = deliverer.putAside(arrived(delivery('x'), START + 100_000, START), PLACE);
    expect(again?.settlement).toEqual({ kind: 'aside', label: '10s', turn: START + 100_000, since: START });
  });

  it('whose turn has come is let in before who is new', async () => {
    const { begin, time, deliverer } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    expect(deliverer.putAside(arrived(delivery('new')), PLACE)).toBeDefined();
    expect(deliverer.putAside(arrived(delivery('old'), START + 1_000), PLACE)).toBeUndefined();
  });

  it('what waits already is put aside too when no call could begin in good time', async () => {
    const { begin, time, release } = setUpHanging();
    const [first, second] = [begin('1'), begin('2')];
    await turn();
    time.elapsed += 12_001;
    expect((await second).settlement).toMatchObject({ kind: 'aside' });
    release[0]?.(OK);
    expect((await first).settlement).toEqual({ kind: 'delivered' });
  });

  it('is dead once there was no room for it for as long as a delivery may fail, however old it is', async () => {
    const { begin, time, deliverer } = setUpHanging();
    void begin('1');
    void begin('2');
    await turn();
    time.elapsed += 10_000;
    const day = 24 * 3_600_000;
    const old = delivery('3', { created_at: iso(START - 3 * day) });
    expect(deliverer.putAside(arrived(old), PLACE)?.settlement).toMatchObject({
      kind: 'aside',
      since: START,
    });
    const waited = (ms: number) =>
      deliverer.putAside(arrived(old, START + 100_000, START - ms), PLACE)?.settlement;
    expect(waited(day - 1)).toMatchObject({ kind: 'aside', since: START - day + 1 });
    expect(waited(day)).toMatchObject({ kind: 'dead', cause: 'expired' });
  });

  it('a process that has too much to do put aside what nobody but itself held up: it waits', async () => {
    const { begin, time, deliverer, load } = setUpHanging();
    const held = Array.from({ length: 100 }, (_, n) => begin(`${n}`));
    await turn();
    time.elapsed += 1_000;
    expect(deliverer.putAside(arrived(delivery('x')), PLACE)).toBeDefined();
    load.overloaded = true;
    expect(deliverer.putAside(arrived(delivery('x')), PLACE)).toBeUndefined();
    time.elapsed += 2_000; // such a call is no fault of the process
    expect(deliverer.putAside(arrived(delivery('x')), PLACE)).toBeDefined();
    expect(held).toHaveLength(100);
  });

  it('no more calls begin in a second than a destination takes', async () => {
    const { calls, time, run } = setUp(() => OK, { perSecond: 100 });
    const all = Promise.all(Array.from({ length: 30 }, (_, n) => run(delivery(`${n}`))));
    const begun: number[] = [];
    for (let ms = 0; calls.length < 30 && ms < 5_000; ms += 10) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      time.elapsed += 10;
      begun.push(calls.length);
    }
    await all;
    for (const [at, count] of begun.entries()) {
      expect(count - (begun[at - 10] ?? 0)).toBeLessThanOrEqual(22);
    }
    expect(time.elapsed).toBeGreaterThanOrEqual(190);
  });

  it('a destination that asks to wait is not called before, and its health says what it does', async () => {
    const busy: DeliveryResult = { outcome: 'retry', reason: 'HTTP 429', status: 429, afterMs: 2_000 };
    const place = { answer: busy as DeliveryResult };
    const { calls, time, run, deliverer } = setUp(() => place.answer);
    expect((await run(delivery('1'))).settlement).toMatchObject({ kind: 'retry', label: '10s' });
    place.answer = OK;
    const second = run(delivery('2'));
    await turn();
    expect(calls).toHaveLength(1);
    expect(deliverer.health()).toMatchObject([
      { destination_id: 'place', waiting: 1, retry: 1, last_errors: [{ status: 429 }], circuit: 'closed' },
    ]);
    time.elapsed += 2_000;
    void run(delivery('3'));
    expect((await second).settlement.kind).toBe('delivered');
  });
});
