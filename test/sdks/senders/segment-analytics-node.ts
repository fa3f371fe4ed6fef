import { Analytics } from '@segment/analytics-node';
import { sendAll, task } from './calls.ts';

const given = task();
const analytics = new Analytics({
  host: given.url,
  writeKey: given.writeKey,
  flushAt: 7,
  flushInterval: 200,
  maxRetries: 12,
});
analytics.on('error', (error) => console.error(error));

await sendAll(given, analytics, () => analytics.closeAndFlush({ timeout: 300_000 }));
