import { createRequire } from 'node:module';
import { callsOf, sendAll, task } from './calls.ts';

interface Client {
  track(call: object): unknown;
  identify(call: object): unknown;
  page(call: object): unknown;
  group(call: object): unknown;
  flush(): Promise<unknown>;
}

const Analytics = createRequire(import.meta.url)('@rudderstack/rudder-sdk-node') as new (
  writeKey: string,
  options: object,
) => Client;

const given = task();
const analytics = new Analytics(given.writeKey, {
  dataPlaneUrl: given.url,
  gzip: process.argv[6] === 'gzip',
  flushAt: 7,
  flushInterval: 200,
  retryCount: 12,
  errorHandler: (error: unknown) => console.error(error),
});

await sendAll(
  given,
  (round) => {
    const { track, identify, page, group } = callsOf(given, round);
    analytics.track(track);
    analytics.identify(identify);
    analytics.page(page);
    analytics.group(group);
  },
  () => analytics.flush(),
);
