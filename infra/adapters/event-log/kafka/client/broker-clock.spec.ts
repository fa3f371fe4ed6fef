import { NO_LOGGER } from '@tributary/core';
import { expect, it, vi } from 'vitest';
import { BrokerClock } from './broker-clock.ts';

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
