import { once } from 'node:events';
import { NO_LOGGER, NO_METRICS, Unavailable } from '@tributary/core';
import { errors, exportJWK, generateKeyPair, type JWK } from 'jose';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { IssuerKeys } from './issuer-keys.ts';
import { ASK_FIRST_AFTER_MS, REFRESH_AFTER_MS, REST_MS } from './key-schedule.ts';

/** Two keys the issuer signs with, one after the other. */
let first: JWK;
let second: JWK;
beforeAll(async () => {
  const make = async (kid: string) => {
    const { publicKey } = await generateKeyPair('ES256', { extractable: true });
    return { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' };
  };
  [first, second] = [await make('first'), await make('second')];
});

/** An issuer that publishes `keys`, or answers nothing while they are undefined; and a clock that waits to be moved. */
function issuer(keys: readonly JWK[] | undefined) {
  const here = { keys, asked: 0, now: 1_000_000, hold: Promise.resolve() };
  const cache = new IssuerKeys({
    issuer: 'https://issuer.example',
    async fetch(signal) {
      here.asked++;
      const answer = here.keys;
      await Promise.race([here.hold, once(signal, 'abort')]);
      if (answer === undefined) throw new Error('it is down');
      return { keys: [...answer] };
    },
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    now: () => here.now,
  });
  onTestFinished(() => cache.close());
  const find = (kid: string) => cache.key({ alg: 'ES256', kid }, { payload: '', signature: '' });
  return { here, cache, find };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('the keys of an issuer', () => {
  it('are asked for once, however many tokens come at once', async () => {
    const { here, find } = issuer([first]);
    await Promise.all(Array.from({ length: 50 }, () => find('first')));
    expect(here.asked).toBe(1);
    here.now += REFRESH_AFTER_MS - 1;
    await find('first');
    expect(here.asked).toBe(1);
  });

  it('are asked for again when a token names a new one', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.keys = [first, second];
    await Promise.all(Array.from({ length: 50 }, () => find('second')));
    expect(here.asked).toBe(2);
  });

  it('are not asked for again and again because of tokens that name none of them', async () => {
    const { here, find } = issuer([first]);
    for (let i = 0; i < 50; i++) await expect(find(`made up ${i}`)).rejects.toThrow(errors.JWKSNoMatchingKey);
    expect(here.asked).toBe(2);
    here.keys = [first, second];
    await expect(find('second')).rejects.toThrow(errors.JWKSNoMatchingKey);
    here.now += REST_MS;
    await find('second');
    expect(here.asked).toBe(3);
  });

  it('that were published while it was being asked are found by asking again', async () => {
    const { here, cache, find } = issuer([first]);
    await find('first');
    let letGo = () => {};
    here.hold = new Promise((resolve) => {
      letGo = resolve;
    });
    void cache.ask();
    here.keys = [second];
    const found = find('second');
    letGo();
    await found;
    expect(here.asked).toBe(3);
  });

  it('that were taken back are no longer taken, also after a time without a token', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.keys = [second];
    here.now += ASK_FIRST_AFTER_MS;
    await expect(find('first')).rejects.toThrow(errors.JWKSNoMatchingKey);
    await find('second');
  });

  it('are refreshed beside their use', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.now += REFRESH_AFTER_MS;
    here.hold = new Promise(() => {});
    await find('first');
    expect(here.asked).toBe(2);
  });

  it('stay in use while it is down, and nobody waits for it', async () => {
    const { here, cache, find } = issuer([first]);
    await find('first');
    here.keys = undefined;
    here.now += ASK_FIRST_AFTER_MS;
    await find('first');
    expect(cache.status).toBe('does not answer: it is down');
    here.hold = new Promise(() => {});
    for (let hour = 0; hour < 48; hour++) {
      here.now += 3_600_000;
      await find('first');
    }
  });

  it('cannot be known while it is down', async () => {
    const { here, cache, find } = issuer(undefined);
    for (let i = 0; i < 50; i++) await expect(find('first')).rejects.toThrow(Unavailable);
    expect(here.asked).toBe(1);
    here.keys = [first];
    here.now += REST_MS;
    await find('first');
    expect(cache.status).toBe('answers');
    here.keys = undefined;
    await expect(find('second')).rejects.toThrow(Unavailable);
    await find('first');
  });

  it('are asked for without a token too, so that /readyz tells what is', async () => {
    const { here, cache } = issuer(undefined);
    cache.refresh();
    await settled();
    here.keys = [first];
    cache.refresh();
    expect(here.asked).toBe(1);
    here.now += REST_MS;
    cache.refresh();
    await settled();
    expect({ asked: here.asked, said: cache.status }).toEqual({ asked: 2, said: 'answers' });
  });
});
