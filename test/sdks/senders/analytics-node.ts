import { createRequire } from 'node:module';
import { type Client, sendAll, task } from './calls.ts';

interface Queued extends Client {
  flush(): Promise<unknown>;
  readonly queue: readonly unknown[];
}

const Analytics = createRequire(import.meta.url)('analytics-node') as new (
  writeKey: string,
  options: object,
) => Queued;

const given = task();
const analytics = new Analytics(given.writeKey, {
  host: given.url,
  flushAt: 7,
  flushInterval: 200,
  retryCount: 12,
  errorHandler: (error: unknown) => console.error(error),
});

await sendAll(given, analytics, async () => {
  while (analytics.queue.length > 0) await analytics.flush();
});
