import { createRequire } from 'node:module';
import { type Client, sendAll, task } from './calls.ts';

interface Queued extends Client {
  flush(): Promise<unknown>;
}

const Analytics = createRequire(import.meta.url)('@rudderstack/rudder-sdk-node') as new (
  writeKey: string,
  options: object,
) => Queued;

const given = task();
const analytics = new Analytics(given.writeKey, {
  dataPlaneUrl: given.url,
  gzip: process.argv[6] === 'gzip',
  flushAt: 7,
  flushInterval: 200,
  retryCount: 12,
  errorHandler: (error: unknown) => console.error(error),
});

await sendAll(given, analytics, () => analytics.flush());
