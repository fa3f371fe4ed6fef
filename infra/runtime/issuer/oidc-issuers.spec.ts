import { once } from 'node:events';
import { NO_LOGGER, NO_METRICS, Unavailable } from '@tributary/core';
import { errors, exportJWK, generateKeyPair, type JWK } from 'jose';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  beforeUse,
  FETCH_FIRST_AFTER_MS,
  FIRST_REST_MS,
  IssuerKeys,
  mayFetchForUnknown,
  REFRESH_AFTER_MS,
  REST_MS,
} from './oidc-issuers.ts';

/** Two successive keys of the issuer. */
let first: JWK;
let second: JWK;
beforeAll(async () => {
  const make = async (kid: string) => {
    const { publicKey } = await generateKeyPair('ES256', { extractable: true });
    return { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' };
  };
  [first, second] = [await make('first'), await make('second')];
});

/**
 * An issuer that publishes `keys`, or does not answer while they are undefined; and a clock set by the test.
 */
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
  it('are fetched once for many concurrent tokens', async () => {
    const { here, find } = issuer([first]);
    await Promise.all(Array.from({ length: 50 }, () => find('first')));
    expect(here.asked).toBe(1);
    here.now += REFRESH_AFTER_MS - 1;
    await find('first');
    expect(here.asked).toBe(1);
  });

  it('are fetched again when a token names a new one', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.keys = [first, second];
    await Promise.all(Array.from({ length: 50 }, () => find('second')));
    expect(here.asked).toBe(2);
  });

  it('are not fetched repeatedly because of tokens with unknown keys', async () => {
    const { here, find } = issuer([first]);
    for (let i = 0; i < 50; i++) await expect(find(`made up ${i}`)).rejects.toThrow(errors.JWKSNoMatchingKey);
    expect(here.asked).toBe(2);
    here.keys = [first, second];
    await expect(find('second')).rejects.toThrow(errors.JWKSNoMatchingKey);
    here.now += REST_MS;
    await find('second');
    expect(here.asked).toBe(3);
  });

  it('that were published during a fetch are found by another one', async () => {
    const { here, cache, find } = issuer([first]);
    await find('first');
    let letGo = () => {};
    here.hold = new Promise((resolve) => {
      letGo = resolve;
    });
    void cache.fetchKeys();
    here.keys = [second];
    const found = find('second');
    letGo();
    await found;
    expect(here.asked).toBe(3);
  });

  it('that were revoked are no longer accepted, also after a time without tokens', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.keys = [second];
    here.now += FETCH_FIRST_AFTER_MS;
    await expect(find('first')).rejects.toThrow(errors.JWKSNoMatchingKey);
    await find('second');
  });

  it('are refreshed in the background', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.now += REFRESH_AFTER_MS;
    here.hold = new Promise(() => {});
    await find('first');
    expect(here.asked).toBe(2);
  });

  it('stay in use while the issuer is down, and no request waits for it', async () => {
    const { here, cache, find } = issuer([first]);
    await find('first');
    here.keys = undefined;
    here.now += FETCH_FIRST_AFTER_MS;
    await find('first');
    expect(cache.status).toBe('does not answer: it is down');
    here.hold = new Promise(() => {});
    for (let hour = 0; hour < 48; hour++) {
      here.now += 3_600_000;
      await find('first');
    }
  });

  it('are unavailable while the issuer has never answered', async () => {
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

  it('are fetched without a token too, so that /readyz is up to date', async () => {
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

const NOW = 10 * FETCH_FIRST_AFTER_MS;
const ago = (ms: number) => NOW - ms;

describe('before a key is looked up', () => {
  it.each([
    ['fetch first', 'no keys were ever got', {}],
    ['use', 'they are young', { fetchedAt: ago(REFRESH_AFTER_MS - 1) }],
    ['refresh', 'they are no longer young', { fetchedAt: ago(REFRESH_AFTER_MS) }],
    ['fetch first', 'they are old: one may have been taken back', { fetchedAt: ago(FETCH_FIRST_AFTER_MS) }],
    ['use', 'asking has just failed', { fetchedAt: ago(FETCH_FIRST_AFTER_MS), failedAt: ago(REST_MS - 1) }],
    ['refresh', 'asking failed before', { fetchedAt: ago(FETCH_FIRST_AFTER_MS), failedAt: ago(REST_MS) }],
    ['refresh', 'asking failed and they are young', { fetchedAt: ago(REST_MS), failedAt: ago(REST_MS) }],
    ['use', 'there are none and asking has just failed', { failedAt: ago(FIRST_REST_MS - 1) }],
    ['refresh', 'there are none and asking failed a second ago', { failedAt: ago(FIRST_REST_MS) }],
    ['fetch first', 'there are none and asking failed before', { failedAt: ago(REST_MS) }],
  ])('%s when %s', (step, _, history) => {
    expect(beforeUse(history, NOW)).toBe(step);
  });
});

it('limits fetches for unknown keys, and pauses after a failure', () => {
  expect(mayFetchForUnknown({ fetchedAt: ago(1) }, NOW)).toBe(true);
  expect(mayFetchForUnknown({ fetchedAt: ago(1), fetchedForUnknownAt: ago(REST_MS - 1) }, NOW)).toBe(false);
  expect(mayFetchForUnknown({ fetchedAt: ago(1), fetchedForUnknownAt: ago(REST_MS) }, NOW)).toBe(true);
  expect(mayFetchForUnknown({ fetchedAt: ago(1), failedAt: ago(REST_MS - 1) }, NOW)).toBe(false);
});
