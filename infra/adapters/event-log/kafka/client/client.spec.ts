import { NO_LOGGER, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BrokerClock, ClientPool } from './client.ts';

interface Client {
  readonly number: number;
  isClosed: boolean;
  close(): Promise<void>;
}

describe('ClientPool', () => {
  let clients: Client[];
  let pool: ClientPool<Client>;
  const create = () => {
    const client: Client = {
      number: clients.length,
      isClosed: false,
      async close() {
        client.isClosed = true;
      },
    };
    clients.push(client);
    return client;
  };
  const number = (client: Client) => Promise.resolve(client.number);
  /** Holds so many clients until the result is called. */
  const occupy = (count: number) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const occupied = Array.from({ length: count }, () => pool.use(() => promise));
    return async () => {
      resolve();
      await Promise.all(occupied);
    };
  };

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    clients = [];
    pool = new ClientPool(create, NO_LOGGER);
  });
  afterEach(async () => {
    await pool.close();
    vi.useRealTimers();
  });

  it('gives a client to one caller at a time, and uses it again', async () => {
    const release = occupy(3);
    expect(clients).toHaveLength(3);
    await release();
    await Promise.all([pool.use(number), pool.use(number)]);
    expect(clients).toHaveLength(3);
  });

  it('closes clients that were idle for a while, and keeps those in use', async () => {
    await occupy(5)();
    const release = occupy(1);
    for (let second = 0; second < 60; second++) {
      vi.advanceTimersByTime(1_000);
      await pool.use(number);
    }
    expect(clients.filter(({ isClosed }) => !isClosed)).toHaveLength(2);
    await release();
    expect(clients).toHaveLength(5);
  });

  it('closes all clients with it, also those in use, and opens none afterwards', async () => {
    const release = occupy(2);
    await pool.close();
    expect(clients.map(({ isClosed }) => isClosed)).toEqual([true, true]);
    await release();
    await expect(pool.use(number)).rejects.toThrow(Unavailable);
  });
});

const NOW = Date.UTC(2026, 10, 29);

it('warned of no clock that was hours off: it is compared by the stamps of the brokers', () => {
  const warn = vi.fn();
  const clock = new BrokerClock({ ...NO_LOGGER, warn });
  expect(clock.aheadMs()).toBeUndefined();
  clock.note(1, { sentAt: NOW, tookMs: 40, stampedAt: NOW + 30 });
  expect(clock.aheadMs()).toBe(0);
  clock.note(1, { sentAt: NOW, tookMs: 40, stampedAt: NOW + 3_600_000 });
  expect(clock.aheadMs()).toBe(40 - 3_600_000);
  clock.note(1, { sentAt: NOW, tookMs: 40, stampedAt: NOW - 7_200_000 });
  expect(clock.aheadMs()).toBe(7_200_000);
  expect(warn).toHaveBeenCalledOnce(); // once a minute
  clock.note(2, { sentAt: NOW, tookMs: 40, stampedAt: NOW });
  expect(clock.aheadMs()).toBe(0); // the first broker is the one that is off
});
