import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../helpers/client.ts';
import { benchBatch } from './event.ts';

/** Events in a request: the gateway's limit. */
const BATCH = 1_000;
const SENDERS = 2;

/** Sends that many events (in thousands), with these names in turn; slows down on the gateway's request. */
export async function sendBacklog(
  producer: Client,
  events: number,
  names?: readonly string[],
): Promise<void> {
  const body = benchBatch(BATCH, names);
  let left = events / BATCH;
  const sender = async () => {
    while (left > 0) {
      left--;
      while ((await producer.call('POST', './events/batch', { body })).status !== 202) await sleep(50);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
}
