import { type DeliveryResult, iso } from '@tributary/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { DEFAULT_BREAKER } from './admission.ts';
import {
  BUSY,
  DESTINATION,
  DOWN,
  delivery,
  FRESH,
  OK,
  START,
  setUp,
  taskOf,
  timePasser,
  turn,
} from './deliveries.fixture.ts';

function withFakeTimers(time: Parameters<typeof timePasser>[0]) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  return timePasser(time);
}

describe('a destination', () => {
  it('batches the deliveries of one turn of the event loop, up to the bound of the connector', async () => {
    const { calls, run, unsealings } = setUp(() => OK, { size: () => 3 });
    const done = await Promise.all(['1', '2', '3', '4'].map((id) => run(delivery(id))));
    expect(calls.map(({ ids }) => ids)).toEqual([['1', '2', '3'], ['4']]);
    expect(done.map(({ kind }) => kind)).toEqual(Array(4).fill('delivered'));
    expect(done[0]?.delivery.attempts).toMatchObject([{ at: iso(START), outcome: 'delivered', status: 200 }]);
    expect(unsealings()).toBe(1);
  });

  it('what never left counted for the health of the destination', async () => {
    const remote = { answer: { outcome: 'unwanted', reason: 'not sent' } as DeliveryResult };
    const { run, registry } = setUp(() => remote.answer);
    expect(await run(delivery('1'))).toMatchObject({
      kind: 'unwanted',
      delivery: { attempts: [] },
    });
    remote.answer = { outcome: 'dead', reason: 'not sent: no email', local: true };
    expect(await run(delivery('2'))).toMatchObject({
      kind: 'dead',
      reason: 'not sent: no email',
    });
    expect(registry.health()).toMatchObject([{ delivered: 0, dead: 0, last_errors: [] }]);
  });

  it('what never left closed the circuit of a destination that was down', async () => {
    const remote = { answer: DOWN as DeliveryResult };
    const { run, registry, time } = setUp(() => remote.answer);
    const notSent: DeliveryResult = { outcome: 'unwanted', reason: 'not sent' };
    // Three failures in a row open it, also with events between them of which nothing is sent.
    for (const [n, answer] of [DOWN, DOWN, notSent, DOWN].entries()) {
      remote.answer = answer;
      await run(delivery(`${n}`));
    }
    expect(registry.health()).toMatchObject([{ circuit: 'open' }]);
    time.elapsed += DEFAULT_BREAKER.coolDownMs;
    remote.answer = notSent;
    await run(delivery('probe'));
    expect(registry.health()).toMatchObject([{ circuit: 'half-open' }]);
    remote.answer = OK;
    expect(await run(delivery('again'))).toMatchObject({ kind: 'delivered' });
    expect(registry.health()).toMatchObject([{ circuit: 'closed' }]);
  });

  it('makes no more calls at a time than allowed, and fills the next while all are busy', async () => {
    const release: (() => void)[] = [];
    const { calls, run } = setUp(() => new Promise((resolve) => release.push(() => resolve(OK))), {
      size: () => 2,
      maxConcurrency: 1,
    });
    const first = run(delivery('1'));
    await turn();
    const rest = Promise.all([run(delivery('2')), run(delivery('3'))]);
    await turn();
    expect(calls).toHaveLength(1);
    release[0]?.();
    await first;
    await turn();
    expect(calls.map(({ ids }) => ids)).toEqual([['1'], ['2', '3']]);
    release[1]?.();
    release[2]?.();
    await rest;
  });

  it('a queued delivery uses the settings of the destination at the time its request begins', async () => {
    const release: (() => void)[] = [];
    const unanswered = () => new Promise<DeliveryResult>((resolve) => release.push(() => resolve(OK)));
    const { calls, known, run } = setUp(unanswered, { maxConcurrency: 1 });
    const first = run(delivery('1'));
    await turn();
    const [second, third] = [run(delivery('2')), run(delivery('3'))];
    await turn();
    known.set('destination', { ...DESTINATION, version: 2 });
    release[0]?.();
    await first;
    await turn();
    known.set('destination', { ...DESTINATION, version: 3, enabled: false });
    release[1]?.();
    expect(await second).toMatchObject({ kind: 'delivered' });
    expect(await third).toMatchObject({ kind: 'dead', reason: 'the destination is disabled' });
    expect(calls.map(({ ids, version }) => [ids, version])).toEqual([
      [['1'], 1],
      [['2'], 2],
    ]);
  });

  it('a clock that is set back holds no circuit open and no timeout up', async () => {
    const remote: { answer: DeliveryResult | Promise<DeliveryResult> } = { answer: DOWN };
    const { time, run, leaveToSlowQueue } = setUp(() => remote.answer);
    for (const id of ['1', '2', '3']) await run(delivery(id));
    time.now -= 3_600_000;
    time.elapsed += DEFAULT_BREAKER.coolDownMs;
    remote.answer = OK;
    expect((await run(delivery('4'))).kind).toBe('delivered');
    remote.answer = new Promise(() => {});
    expect((await leaveToSlowQueue(delivery('5'))).kind).toBe('slow');
  });

  it('logs once per version that settings cannot be unsealed', async () => {
    const { run, errors, unsealings } = setUp(() => OK);
    const broken = { ...DESTINATION, settings: { broken: true } };
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
    expect((await run(delivery('1'))).kind).toBe('delivered');
    expect(errors).toHaveLength(1);
  });

  it('tries once more at once after a reset connection, then follows the schedule', async () => {
    const reset: DeliveryResult = { outcome: 'retry', reason: 'ECONNRESET', reset: true };
    const { calls, run } = setUp(() => reset);
    const { delivery: tried, ...outcome } = await run(delivery('1'));
    expect(calls).toHaveLength(2);
    expect(tried.attempts.map(({ at_once }) => at_once)).toEqual([undefined, true]);
    expect(outcome).toEqual({
      kind: 'retry',
      label: '10s',
      notBefore: START + 10_000,
      reason: 'ECONNRESET',
    });
  });

  it('a refusal for the rate used a retry step: the delivery is sent again once its destination takes it', async () => {
    const remote: { answer: DeliveryResult } = { answer: BUSY };
    const { calls, time, run } = setUp(() => remote.answer);
    const pass = withFakeTimers(time);
    const sent = run(delivery('1'));
    await turn();
    remote.answer = OK;
    await pass(1_100);
    expect(calls).toHaveLength(2);
    const { delivery: tried, ...outcome } = await sent;
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(tried.attempts).toMatchObject([{ outcome: 'retry', throttled: true }, { outcome: 'delivered' }]);
    expect(tried.attempts[1]).not.toHaveProperty('throttled');
  });

  it('a delivery that is always refused for the rate was sent before all others, at a falling pace: it uses retry steps', async () => {
    const { calls, time, run } = setUp(({ id }) => (id === 'refused' ? BUSY : OK));
    const order = ['refused', ...Array.from({ length: 40 }, (_, n) => `${n}`)];
    const pass = withFakeTimers(time);
    const sent = order.map((id) => run(delivery(id)));
    await pass(9_000);
    const [refused, ...others] = await Promise.all(sent);
    expect(others.every(({ kind }) => kind === 'delivered')).toBe(true);
    expect(refused).toMatchObject({
      kind: 'retry',
      label: '10s',
      reason: 'HTTP 429',
      delivery: { attempts: [{ throttled: true }, { outcome: 'retry', status: 429 }] },
    });
    expect(refused?.delivery.attempts[1]).not.toHaveProperty('throttled');
    expect(calls).toHaveLength(order.length + 1);
    expect(calls.findLastIndex(({ ids }) => ids.includes('refused'))).toBeGreaterThan(10);
  });

  it('a delivery whose destination asks for a long wait is deferred with its attempt, at once', async () => {
    const { calls, run } = setUp(() => ({ ...BUSY, afterMs: 60_000 }));
    const { delivery: tried, ...outcome } = await run(delivery('1'));
    expect(outcome).toMatchObject({ kind: 'deferred', label: '1m' });
    expect(tried.attempts).toMatchObject([{ status: 429, throttled: true }]);
    expect(calls).toHaveLength(1);
  });

  it('a delivery that is refused for the rate for a day expires', async () => {
    const { run } = setUp(() => BUSY);
    const old = await run(delivery('1', { created_at: iso(START - 24 * 3_600_000) }));
    expect(old).toMatchObject({
      kind: 'dead',
      cause: 'expired',
      reason: 'expired; last failure: HTTP 429',
    });
  });

  it('dead-letters refused deliveries, keeping the response', async () => {
    const refused: DeliveryResult = { outcome: 'dead', reason: 'HTTP 400', status: 400, response: 'no' };
    const { run } = setUp(() => refused);
    const { delivery: tried, ...outcome } = await run(delivery('1'));
    expect(outcome).toEqual({ kind: 'dead', cause: 'destination', reason: 'HTTP 400' });
    expect(tried.attempts).toMatchObject([{ outcome: 'dead', status: 400, response: 'no' }]);
  });

  it('an open circuit puts deliveries off without a call, for longer the older they are, and lets one probe', async () => {
    const remote: { answer: DeliveryResult } = { answer: DOWN };
    const { calls, time, run } = setUp(() => remote.answer);
    for (const id of ['1', '2', '3']) await run(delivery(id));
    const young = await run(delivery('4'));
    const backlog = { created_at: iso(START - 5 * 60_000) };
    const late = await run(delivery('5', backlog));
    expect(calls).toHaveLength(3);
    expect(young.delivery.attempts).toEqual([]);
    expect(young).toMatchObject({ kind: 'retry', label: '10s', reason: 'circuit open' });
    // It was old before the destination failed.
    expect(late).toMatchObject({ kind: 'retry', label: '10s', reason: 'circuit open' });

    for (let probe = 1; probe <= 5; probe++) {
      time.elapsed += DEFAULT_BREAKER.coolDownMs;
      await run(delivery(`probe-${probe}`));
    }
    const old = await run(delivery('8', backlog));
    expect(old).toMatchObject({ kind: 'retry', label: '10m', reason: 'circuit open' });
    expect(calls.splice(3)).toHaveLength(5);

    time.elapsed += DEFAULT_BREAKER.coolDownMs;
    remote.answer = OK;
    const probed = await Promise.all([run(delivery('6')), run(delivery('7'))]);
    expect(probed.map(({ kind }) => kind)).toEqual(['delivered', 'retry']);
    expect((await run(delivery('8'))).kind).toBe('delivered');
  });

  it('an open circuit lets no delivery outlive its expiry', async () => {
    const { time, run } = setUp(() => DOWN);
    for (const id of ['1', '2', '3']) await run(delivery(id));
    time.now += 1;
    const expired = await run(delivery('4', { created_at: iso(START - 24 * 3_600_000) }));
    expect(expired).toMatchObject({ kind: 'dead', cause: 'expired' });
  });

  it('a delivery that lay in the log for days expired after no or one attempt: its time begins with the first attempt', async () => {
    const { time, sendTask, run } = setUp(() => DOWN);
    const left = (id: string) => taskOf(delivery(id, { created_at: iso(START - 72 * 3_600_000) }), FRESH);
    const tried = await sendTask(left('1'));
    expect(tried).toMatchObject({
      delivery: { created_at: iso(START), attempts: [{ outcome: 'retry' }] },
      kind: 'retry',
      label: '10s',
    });
    for (const id of ['2', '3']) await run(delivery(id));
    time.now += 1_000;
    const postponed = await sendTask(left('4'));
    expect(postponed).toMatchObject({
      delivery: { created_at: iso(START + 1_000), attempts: [] },
      kind: 'retry',
      label: '10s',
      reason: 'circuit open',
    });
  });

  it('the time to expire that began with a try is kept by the slow stage that attaches to it', async () => {
    const { promise, resolve } = Promise.withResolvers<DeliveryResult>();
    const { time, sendQuickly, attach } = setUp(() => promise);
    const old = delivery('1', { created_at: iso(START - 72 * 3_600_000) });
    const soon = sendQuickly(taskOf(old, FRESH));
    await turn();
    time.elapsed += 501;
    expect((await soon).kind).toBe('slow');
    const attached = attach(old);
    resolve(DOWN);
    expect(await attached).toMatchObject({
      delivery: { created_at: iso(START), attempts: [{ outcome: 'retry' }] },
      kind: 'retry',
    });
  });

  it('a refusal shows that the destination is there: it does not open the circuit', async () => {
    const { calls, run } = setUp(() => ({ outcome: 'dead', reason: 'HTTP 400' }));
    for (const id of ['1', '2', '3', '4', '5']) await run(delivery(id));
    expect(calls).toHaveLength(5);
  });

  it('retries when a connector throws, or cannot be given its settings', async () => {
    const thrown = setUp(() => Promise.reject(new Error('bug')));
    expect(await thrown.run(delivery('1'))).toMatchObject({ reason: 'the connector failed' });

    const unlimited = setUp(() => OK, {
      size: () => {
        throw new TypeError('bug');
      },
    });
    for (const id of ['2', '3'])
      expect(await unlimited.run(delivery(id))).toMatchObject({ kind: 'delivered' });
    expect(unlimited.errors).toEqual(['a connector threw instead of answering']);

    const broken = { ...DESTINATION, settings: { broken: true } };
    const sealed = await setUp(() => OK).run(delivery('1'), broken);
    expect(sealed).toMatchObject({ kind: 'retry', reason: 'the settings cannot be unsealed' });
  });

  it('dead-letters at once a delivery for an unknown connector', async () => {
    const outcome = await setUp(() => OK).run(delivery('1'), { ...DESTINATION, type: 'unknown' });
    expect(outcome).toMatchObject({ kind: 'dead', reason: 'no connector of type unknown' });
  });

  it('stops waiting when the partition is lost, and aborts a call once all its deliveries are cancelled', async () => {
    const { calls, run } = setUp(() => new Promise(() => {}), { size: () => 2 });
    const [one, other] = [new AbortController(), new AbortController()];
    const results = [
      run(delivery('1'), DESTINATION, one.signal),
      run(delivery('2'), DESTINATION, other.signal),
    ].map((promise) => promise.catch((error: unknown) => error));
    await turn();
    one.abort();
    expect(await results[0]).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(false);
    other.abort();
    expect(await results[1]).toMatchObject({ code: 'unavailable' });
    expect(calls[0]?.signal.aborted).toBe(true);
  });
});
