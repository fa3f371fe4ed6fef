import { Overloaded, Unavailable } from '@tributary/core';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../helpers/gateway.ts';

let test: TestGateway;
let producer: InjectClient;
beforeAll(async () => {
  test = await openTestGateway();
  const owner = await test.openWorkspace();
  const { key } = await owner.ok<{ key: string }>('POST', './event-keys', {
    name: 'Web',
    environment: 'production',
  });
  producer = owner.with({ token: key });
});
afterEach(() => vi.restoreAllMocks());
afterAll(() => test.close());

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
