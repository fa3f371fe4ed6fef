import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  DEVELOPER,
  expectServer,
  openExistingIssuer,
  readConfig,
  reportErrors,
  TokenRefused,
  testToken,
} from '@tributary/infra';
import { Client } from '../helpers/client.ts';
import { ProfileClient, sendTo } from '../helpers/profile-client.ts';
import { scrape, waitingNow } from '../helpers/running-tributary.ts';
import { computeAnswers } from './answers.ts';
import { readFlights } from './flights.ts';
import { startReceiver } from './receiver.ts';
import {
  type ResultLine,
  type ResultSources,
  type Results,
  readResults,
  type VolumeRecord,
} from './results.ts';
import { sendEvents } from './send.ts';
import { NDJSON_FOLDER, prepareWorkspace, WORKSPACE } from './workspace.ts';

/** The pipeline counts as drained after this long without a change. */
const QUIET_MS = 30_000;
/** Characters of a full progress bar, and of the longest bar of the chart. */
const BAR = 40;

/**
 * Sends the departures of January 2013 to a running `npm start`, through its HTTP API alone, as the person whose workspace
 * that printed. A second run sends the same message ids and changes nothing.
 */
async function demo(): Promise<number> {
  const { values } = parseArgs({ options: { flights: { type: 'string' } } });
  const config = readConfig(process.env);
  const { url: base, adminUrl } = expectServer(config, process.env);
  const token = await openExistingIssuer(config).mint(DEVELOPER);
  const { answer } = await testToken(base, token);
  if (answer === 'refused') throw new TokenRefused(base, config);
  if (answer === 'none') {
    process.stderr.write(
      `No server runs on ${config.dataFolder}, and nothing answers at ${base}. Start one in another terminal: npm start\n`,
    );
    return 1;
  }
  const events = readFlights(values.flights);
  const expected = computeAnswers(events);
  const receiver = await startReceiver(join(config.dataFolder, 'demo', 'webhook.ndjson'));
  const { client, workspaceId, orgId, region, contractId, writeKey } = await prepareWorkspace(
    new Client(base, token),
    receiver.url,
  );

  process.stdout.write(`To ${base}, into the workspace ${WORKSPACE} (${workspaceId})\n`);
  const started = performance.now();
  await sendEvents(client.with({ token: writeKey.key }), events, (sent) => {
    process.stdout.write(progressLine(sent, events.length, 'sending '));
  });
  process.stdout.write('\n');

  const sources: ResultSources = {
    client,
    contractId,
    receiver,
    folder: join(config.dataFolder, 'ndjson', workspaceId, NDJSON_FOLDER),
    profiles: new ProfileClient(sendTo(base), orgId, {}).withToken(token),
    region,
  };
  const results = await drained(
    () => readResults(sources, expected),
    async () => (await waitingNow(() => scrape(adminUrl))).length === 0,
    events.length,
  );
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(
    `\n${answersTable(results.lines)}\n\n${volumeChart(results.volume)}\n\ndone in ${seconds} s: ${base}/console/w/${workspaceId}/overview\n`,
  );
  if (!isRight(results)) {
    const left = await waitingNow(() => scrape(adminUrl));
    if (left.length > 0)
      process.stdout.write(
        `Not everything has arrived yet; run the demo again later. In the queues of the stages:\n${left.join('\n')}\n`,
      );
  }
  await client.call('DELETE', `./event-keys/${writeKey.id}`);
  await receiver.close();
  return isRight(results) ? 0 : 1;
}

function isRight({ lines }: Results): boolean {
  return lines.every(({ answer, expected }) => answer === expected);
}

/**
 * Reads the results until nothing is in flight and they are right, or until they have not changed for a
 * while.
 */
async function drained(
  read: () => Promise<Results>,
  isIdle: () => Promise<boolean>,
  all: number,
): Promise<Results> {
  let last = '';
  let changedAt = Date.now();
  for (;;) {
    const idle = await isIdle();
    const results = await read();
    process.stdout.write(progressLine(Math.min(results.judged, all), all, 'counting'));
    const now = JSON.stringify(results.lines);
    if (now !== last) changedAt = Date.now();
    last = now;
    if ((idle && isRight(results)) || Date.now() - changedAt > QUIET_MS) return results;
    await sleep(300);
  }
}

// Files written into the data folder are readable by the user of Tributary alone, like all files there.
process.umask(0o077);
process.exitCode = await reportErrors('demo', demo);

/** A progress line that overwrites itself. */
function progressLine(done: number, all: number, what: string): string {
  const filled = Math.round((done / all) * BAR);
  return `\r${what} ${'█'.repeat(filled)}${'░'.repeat(BAR - filled)} ${done.toLocaleString('en')} of ${all.toLocaleString('en')}`;
}

/** The results beside the expected ones. */
function answersTable(lines: readonly ResultLine[]): string {
  const rows = lines.map(({ what, answer, expected }) => [
    what.padEnd(30),
    answer.toLocaleString('en').padStart(12),
    expected.toLocaleString('en').padStart(12),
    answer === expected ? '  ✓' : '  ✗',
  ]);
  return [
    ['', 'answer'.padStart(42), 'expected'.padStart(12)].join(''),
    ...rows.map((row) => row.join('')),
  ].join('\n');
}

/** Volume by hour and name as horizontal bars. */
function volumeChart(volume: readonly VolumeRecord[]): string {
  const most = Math.max(1, ...volume.map(({ event_count }) => event_count));
  let hour = '';
  return volume
    .map(({ event_type, event_name, hour_bucket, event_count }) => {
      const heading = hour_bucket === hour ? '' : `${hour_bucket.slice(0, 13).replace('T', ' ')}:00 UTC\n`;
      hour = hour_bucket;
      const bar = '█'.repeat(Math.max(1, Math.round((event_count / most) * BAR)));
      return `${heading}  ${(event_name || event_type).padEnd(18)} ${bar} ${event_count.toLocaleString('en')}`;
    })
    .join('\n');
}
