import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { computeAnswers } from '../../demo/answers.ts';
import { readFlights } from '../../demo/flights.ts';
import { type Receiver, startReceiver } from '../../demo/receiver.ts';
import { readResults } from '../../demo/results.ts';
import { sendEvents } from '../../demo/send.ts';
import { NDJSON_FOLDER, prepareWorkspace } from '../../demo/workspace.ts';
import { eventually } from '../../helpers/client.ts';
import { ProfileClient, sendTo } from '../../helpers/profile-client.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** On a busy disk a delivery to a file takes more than ten seconds, and a second failure waits minutes. */
const PATIENT = { TRIBUTARY_DELIVERY_TIMEOUT: '60s', TRIBUTARY_RETRY_SCHEDULE: '1s,5s,10s' };
const DRAINED_WITHIN_MS = 180_000;

const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const KILLS = IS_LONG ? 15 : 2;
/** The planes, and then their flights. */
const EVENTS = IS_LONG ? undefined : 12_000;

/**
 * After kill -9 at any time and a restart, sending the rest gives the same results: nothing lost, nothing
 * counted twice.
 */
describe('Kill and restart', () => {
  let tributary: Tributary;
  let receiver: Receiver;
  beforeAll(async () => {
    tributary = await startTributary({ env: PATIENT });
    receiver = await startReceiver(join(tributary.folder, 'demo', 'webhook.ndjson'));
  });
  afterAll(async () => {
    await tributary.remove();
    await receiver.close();
  });

  it(`gives the known answers after ${KILLS} kills, and after everything is sent twice`, async () => {
    const events = readFlights().slice(0, EVENTS);
    const expected = computeAnswers(events);
    const prepared = await prepareWorkspace(tributary.owner, receiver.url);
    const client = () => prepared.client.at(tributary.url);
    const share = Math.ceil(events.length / KILLS);

    for (let kill = 0; kill < KILLS; kill++) {
      const part = events.slice(kill * share, (kill + 1) * share);
      const sending = sendEvents(client().with({ token: prepared.writeKey.key }), part, () => {}).catch(
        () => {},
      );
      await sleep(50 + Math.random() * 1_200);
      await tributary.kill();
      await Promise.race([sending, sleep(0)]); // the server is down: the next round sends the rest
      tributary = await startTributary({ folder: tributary.folder, env: PATIENT });
      await sendEvents(client().with({ token: prepared.writeKey.key }), part, () => {});
    }
    const read = () =>
      readResults(
        {
          client: client(),
          contractId: prepared.contractId,
          receiver,
          folder: join(tributary.folder, 'ndjson', prepared.workspaceId, NDJSON_FOLDER),
          profiles: new ProfileClient(sendTo(tributary.url), prepared.orgId, {}).withToken(tributary.idToken),
          region: prepared.region,
        },
        expected,
      );
    const right = ({ lines }: Awaited<ReturnType<typeof read>>) =>
      lines.every(({ answer, expected: wanted }) => answer === wanted);
    await drained(tributary, DRAINED_WITHIN_MS);
    await eventually(read, right, 30_000);

    await sendEvents(client().with({ token: prepared.writeKey.key }), events, () => {});
    await drained(tributary, DRAINED_WITHIN_MS);
    expect((await read()).lines.filter(({ answer, expected: wanted }) => answer !== wanted)).toEqual([]);
  }, 600_000);
});
