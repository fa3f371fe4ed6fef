import { type ContractVerdict, Overloaded, TokenBuckets, TooLarge, Unavailable } from '@tributary/core';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const site = await test.openWorkspace();
const producer = site.with({ token: await site.writeKey() });
afterEach(() => vi.restoreAllMocks());

const UUID = /^[0-9a-f-]{36}$/;
const event = (message_id?: string) => ({
  event: 'Paid',
  user_id: 'u',
  ...(message_id !== undefined && { message_id }),
});
const item = (message_id?: string) => ({ type: 'track', ...event(message_id) });

describe.each([
  ['does not answer', new Unavailable('down')],
  ['has too much to confirm', new Overloaded('full')],
])('while the log %s', (_, error) => {
  const logFails = () => vi.spyOn(test.dependencies.log, 'append').mockRejectedValue(error);

  it('a single event is 503 with the id to send it again with', async () => {
    logFails();
    const given = await producer.call('POST', './events/track', event('m-1'));
    expect(given).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    expect(given.body).toEqual({ error: 'unavailable', message_id: 'm-1' });
    const assigned = await producer.call('POST', './events/track', event());
    expect(assigned.body).toEqual({ error: 'unavailable', message_id: expect.stringMatching(UUID) });
  });

  it('a batch is 503 with an id for each place of it, also when it has but one event', async () => {
    logFails();
    const one = await producer.call('POST', './events/batch', { batch: [item('m-1')] });
    expect(one.status).toBe(503);
    expect(one.body).toEqual({ error: 'unavailable', message_ids: ['m-1'], rejected: [] });

    const batch = [{ type: 'odd' }, item('m-1'), item(), { type: 'track' }, item('m-2')];
    const mixed = await producer.call('POST', './events/batch', { batch });
    expect(mixed).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    expect(mixed.body).toEqual({
      error: 'unavailable',
      message_ids: [null, 'm-1', expect.stringMatching(UUID), null, 'm-2'],
      rejected: [expect.objectContaining({ index: 0 }), expect.objectContaining({ index: 3 })],
    });
  });

  it('a batch of which nothing is to be stored does not ask it', async () => {
    const append = logFails();
    const answer = await producer.call('POST', './events/batch', { batch: [{ type: 'odd' }] });
    expect(answer).toMatchObject({ status: 202, body: { accepted: 0, rejected: [{ index: 0 }] } });
    expect(append).not.toHaveBeenCalled();
  });
});

describe('while the bound of the log is below that of an event', () => {
  const FILLING = 'x'.repeat(5_000);
  const tooLarge = (message_id: string) => ({ ...item(message_id), properties: { filling: FILLING } });
  const logIsNarrow = () => {
    const { log } = test.dependencies;
    const append = log.append.bind(log);
    return vi.spyOn(log, 'append').mockImplementation(async (topic, entries) => {
      if (entries.some(({ value }) => value.length > 5_000)) throw new TooLarge('too large');
      return append(topic, entries);
    });
  };

  it('the event that is too large is 413', async () => {
    logIsNarrow();
    const { type: _, ...body } = tooLarge('l-1');
    expect(await producer.call('POST', './events/track', body)).toMatchObject({
      status: 413,
      body: { error: 'payload too large', details: [{ message: expect.stringContaining('larger') }] },
    });
  });

  it('a batch is taken without the events that are too large', async () => {
    const append = logIsNarrow();
    const batch = [item('n-0'), tooLarge('n-1'), { type: 'odd' }, item('n-3'), item('n-4'), tooLarge('n-5')];
    const answer = await producer.call('POST', './events/batch', { batch });
    expect(answer).toMatchObject({ status: 202, body: { accepted: 3 } });
    expect(answer.body).toMatchObject({
      rejected: [
        { index: 1, error: 'payload too large' },
        { index: 2, error: 'invalid request' },
        { index: 5, error: 'payload too large' },
      ],
    });
    const taken = append.mock.calls.flatMap(([, entries], call) =>
      append.mock.settledResults[call]?.type === 'fulfilled'
        ? entries.map(({ value }) => (JSON.parse(value) as { message_id: string }).message_id)
        : [],
    );
    expect(taken).toEqual(['n-0', 'n-3', 'n-4']);
    const none = await producer.call('POST', './events/batch', { batch: [tooLarge('n-6')] });
    expect(none).toMatchObject({ status: 202, body: { accepted: 0, rejected: [{ index: 0 }] } });
  });
});

describe('checked by a contract that is slow and blocks', () => {
  const JUDGING_MS = 3;
  const rejected: ContractVerdict = {
    outcome: 'rejected',
    violations: [{ kind: 'type', path: '/a', message: 'is wrong', action: 'blocked' }],
  };
  let judged = 0;
  let checked: TestGateway;
  let owner: Client;
  beforeAll(async () => {
    checked = await openTestGateway({
      dependencies: {
        contracts: {
          evaluate(_, { user_id }) {
            judged += 1;
            const until = performance.now() + JUDGING_MS;
            while (performance.now() < until);
            return user_id === 'blocked' ? rejected : { outcome: 'accepted', violations: [] };
          },
          *prepare() {},
        },
        limits: { events: new TokenBuckets({ perSecond: 1, burst: 300, clock: () => 0 }) },
      },
    });
    owner = await checked.openWorkspace();
    await owner.ok('POST', './event-contracts', {
      name: 'Paid',
      event_type: 'track',
      event_name: 'Paid',
      schema_definition: {},
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
    });
  });
  afterAll(() => checked.close());

  /** A new write key, with a fresh quota. */
  const newProducer = async () => {
    const key = await owner.writeKey();
    return owner.with({ token: key });
  };
  const track = (user_id: string) => ({ event: 'Paid', user_id });
  const items = (size: number, user_id = 'u') =>
    Array.from({ length: size }, () => ({ type: 'track', ...track(user_id) }));
  const send = (to: Client, batch: readonly object[], query = '?check=contract') =>
    to.call('POST', `./events/batch${query}`, { batch });

  it('a batch delayed all others until all of it was evaluated: others are answered in between', async () => {
    const batch = [...items(100), { type: 'odd' }, ...items(1, 'blocked'), ...items(100), { type: 'track' }];
    const sender = await newProducer();
    const before = judged;
    let seen = judged;
    let most = 0;
    const look = () => {
      most = Math.max(most, judged - seen);
      seen = judged;
      looking = setImmediate(look);
    };
    let looking = setImmediate(look);
    const answer = await send(sender, batch);
    clearImmediate(looking);
    expect(judged - before).toBe(201);
    // The maximum in one turn of the event loop.
    expect(most).toBeLessThanOrEqual(2);
    expect(answer).toMatchObject({
      status: 202,
      body: {
        accepted: 200,
        rejected: [
          { index: 100, error: 'invalid request' },
          { index: 101, error: 'event blocked', details: [{ path: '/a', message: 'is wrong' }] },
          { index: 202, error: 'invalid request' },
        ],
      },
    });
  });

  it('events were judged before their key was charged, and free of charge when blocked: each counts once', async () => {
    const sender = await newProducer();
    expect(await send(sender, items(90, 'blocked'))).toMatchObject({ status: 202, body: { accepted: 0 } });
    expect((await send(sender, items(109), '')).status).toBe(202);
    expect((await send(sender, items(99))).status).toBe(202);
    const single = (user_id: string) => sender.call('POST', './events/track?check=contract', track(user_id));
    expect((await single('blocked')).status).toBe(400);
    expect((await single('u')).status).toBe(202);
    const before = judged;
    const append = vi.spyOn(checked.dependencies.log, 'append');
    expect(await send(sender, items(9))).toMatchObject({
      status: 429,
      headers: { 'retry-after': '9' },
      body: { error: 'too many requests' },
    });
    for (const who of ['blocked', 'u']) expect((await single(who)).status).toBe(429);
    expect(judged).toBe(before);
    expect(append).not.toHaveBeenCalled();
  });
});

it('a page may have an empty name, as some sites have: it is kept as it came', async () => {
  const page = { user_id: 'u', name: '', properties: { url: 'https://example.com/' } };
  const append = vi.spyOn(test.dependencies.log, 'append');
  expect(await producer.call('POST', './events/page', page)).toMatchObject({ status: 202 });
  const [entry] = append.mock.calls[0]?.[1] ?? [];
  expect(JSON.parse(entry?.value ?? '{}')).toMatchObject({ type: 'page', name: '' });
});
