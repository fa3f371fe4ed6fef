import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { HOSTILE_ENDPOINTS, startServer } from './programs/hostile-endpoints.ts';
import {
  completed,
  connectorOf,
  createTestConnectors,
  delivery,
  descriptionOf,
  destination,
  unhurried,
} from './suite/harness.ts';

/** The timeout of a call when something else ends it, and when nothing does. */
const TIMEOUT_MS = 8_000;
const SHORT_MS = 500;
/** Tolerance beyond the timeout of a call, on a busy machine. */
const SLACK_MS = 3_000;
/**
 * The longest time that one received message may occupy this thread. A malformed message that is never
 * finished would take forever.
 */
const MAX_DELAY_MS = 2_000;
const MAX_GROWTH = 64 * 1_024 * 1_024;

const uncaught: unknown[] = [];
const note = (error: unknown) => uncaught.push(error);
afterEach(() => {
  process.off('uncaughtException', note);
  uncaught.length = 0;
});

describe.each(HOSTILE_ENDPOINTS.map((endpoint) => [endpoint.type, endpoint.name, endpoint] as const))(
  'a %s destination whose server %s',
  (type, _, endpoint) => {
    it('fails its own deliveries, and affects neither the process, its thread nor its memory', async () => {
      const timeoutMs = /drips/.test(endpoint.name) ? SHORT_MS : TIMEOUT_MS;
      process.prependListener('uncaughtException', note);
      const server = await startServer(endpoint.serve);
      onTestFinished(() => server.close());
      const connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs });
      const connector = connectorOf(connectors, type);
      const where = destination(completed(descriptionOf(type), endpoint.settings(server.port)));
      const before = process.memoryUsage().rss;
      const delay = monitorEventLoopDelay({ resolution: 5 });
      delay.enable();
      const began = performance.now();

      const tested = await connector.test(where, unhurried);
      const [result] = await connector.deliver(where, [delivery()], unhurried);

      expect(performance.now() - began).toBeLessThan(2 * timeoutMs + SLACK_MS);
      expect(tested).toMatchObject({ ok: false, reason: expect.stringMatching(endpoint.reason) });
      expect(result).toMatchObject({ outcome: expect.stringMatching(/retry|dead/) });
      expect(JSON.stringify([tested, result]).length).toBeLessThan(4_000);
      await connectors.close();
      await expect.poll(() => server.open.size, { timeout: 15_000 }).toBe(0);
      delay.disable();
      expect(delay.max / 1e6).toBeLessThan(MAX_DELAY_MS);
      expect(process.memoryUsage().rss - before).toBeLessThan(MAX_GROWTH);
      expect(uncaught).toEqual([]);
    });
  },
);
