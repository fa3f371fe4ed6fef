import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../helpers/client.ts';
import type { FlightEvent } from './flights.ts';

const BATCH = 500;
const CONCURRENCY = 4;
/** The longest wait for a server that does not answer. */
const PATIENCE_MS = 60_000;

/**
 * Sends events in batches. Unconfirmed batches are resent with the same message ids: a producer needs nothing
 * more for exactly-once counts.
 */
export async function sendEvents(
  producer: Client,
  events: readonly FlightEvent[],
  progress: (sent: number) => void,
): Promise<void> {
  const batches: (readonly FlightEvent[])[] = [];
  for (let i = 0; i < events.length; i += BATCH) batches.push(events.slice(i, i + BATCH));
  let next = 0;
  let sent = 0;
  const sender = async () => {
    for (let batch = batches[next++]; batch !== undefined; batch = batches[next++]) {
      await sendBatch(producer, batch);
      sent += batch.length;
      progress(sent);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, sender));
}

async function sendBatch(producer: Client, batch: readonly FlightEvent[]): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  for (let attempt = 0; ; attempt++) {
    const failure = await tryBatch(producer, batch);
    if (failure === undefined) return;
    if (!failure.passing || Date.now() > deadline) throw new Error(failure.message);
    await sleep(Math.min(2_000, 100 * 2 ** attempt));
  }
}

interface Failure {
  readonly passing: boolean;
  readonly message: string;
}

async function tryBatch(producer: Client, batch: readonly FlightEvent[]): Promise<Failure | undefined> {
  try {
    const { status, body } = await producer.call<{ rejected?: readonly unknown[] }>(
      'POST',
      './events/batch',
      { batch },
    );
    if (status !== 202)
      return { passing: status === 503 || status === 429, message: `the server answered ${status}` };
    if (body.rejected?.length === 0) return undefined;
    return { passing: false, message: `events were refused: ${JSON.stringify(body.rejected?.slice(0, 3))}` };
  } catch (error) {
    return { passing: true, message: `the server cannot be reached: ${String(error)}` };
  }
}
