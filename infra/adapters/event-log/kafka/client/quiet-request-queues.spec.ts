import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import './quiet-request-queues.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function queue(waiting: number): RequestQueue {
  const made: RequestQueue = Object.create(RequestQueue.prototype);
  return Object.assign(made, { pending: new Array(waiting).fill({}), throttledUntil: -1 });
}

it('an idle connection sets no timers', () => {
  queue(0).scheduleCheckPendingRequests();
  expect(vi.getTimerCount()).toBe(0);
});

it('what waits is looked for', () => {
  queue(1).scheduleCheckPendingRequests();
  expect(vi.getTimerCount()).toBe(1);
});
