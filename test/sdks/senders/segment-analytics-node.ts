import { Analytics } from '@segment/analytics-node';
import { callsOf, sendAll, task } from './calls.ts';

const given = task();
const analytics = new Analytics({
  host: given.url,
  writeKey: given.writeKey,
  flushAt: 7,
  flushInterval: 200,
  maxRetries: 12,
});
analytics.on('error', (error) => console.error(error));

await sendAll(
  given,
  (round) => {
    const { track, identify, page, group } = callsOf(given, round);
    analytics.track(track);
    analytics.identify(identify);
    analytics.page(page);
    analytics.group(group);
  },
  () => analytics.closeAndFlush({ timeout: 60_000 }),
);
