import autocannon from 'autocannon';
import type { Load, LoadResult } from './load.ts';

// The load generator in a process of its own: one argument, the load as JSON; prints the result as JSON.
const { url, headers, body, connections, seconds } = JSON.parse(process.argv[2] ?? '{}') as Load;
const measured = await autocannon({
  url,
  method: 'POST',
  headers: { ...headers },
  body,
  connections,
  duration: seconds,
});
const result: LoadResult = {
  requestsPerSecond: measured['2xx'] / measured.duration,
  answered: measured['2xx'],
  other: measured.non2xx + measured.errors,
};
process.stdout.write(JSON.stringify(result));
