import { setTimeout as sleep } from 'node:timers/promises';
import { atMost } from '../helpers/pacing.ts';
import type { Dice } from './dice.ts';
import type { SentEvent } from './traffic.ts';

const BATCH = 100;
const ANSWER_WITHIN_MS = 15_000;
const LONGEST_PAUSE_MS = 500;
/** Shares of the batches that are sent to both gateways at once, and sent again later. */
const TO_BOTH = 0.05;
const AGAIN_LATER = 0.04;

export interface ProducerOptions {
  /** Bases of the gateways, two at least. */
  readonly gateways: readonly [string, string];
  readonly workspaceId: string;
  readonly writeKey: string;
  /** Events in a second at most. */
  readonly rate: number;
  readonly dice: Dice;
  /** The longest time for one batch to be confirmed, ms. */
  readonly patienceMs: number;
}

/** The figures recorded by the producers. */
export interface SendingFigures {
  confirmed: number;
  /** Events that were sent again on purpose although they were, or might be, confirmed. */
  duplicates: number;
  /** Answers by status, `none` for missing ones. */
  readonly answers: Map<string, number>;
  /** The longest time that a batch took to be confirmed, ms. */
  slowestMs: number;
}

type Batch = readonly SentEvent[];

/**
 * Sends each share in order, batch by batch: the next batch starts when the one before is confirmed.
 * Unconfirmed batches are resent under the same message ids, to any of the gateways. Some batches go to both
 * gateways at once, and some are sent again later. Rejects when a batch is refused, or not confirmed in time.
 */
export async function produce(
  shares: readonly (readonly SentEvent[])[],
  options: ProducerOptions,
  figures: SendingFigures,
): Promise<void> {
  const { gateways, dice, rate } = options;
  const turn = atMost(rate);
  const other = (gateway: string) => (gateway === gateways[0] ? gateways[1] : gateways[0]);
  const repeat = (gateway: string, batch: Batch) => {
    figures.duplicates += batch.length;
    const repeated = post(gateway, batch, options, figures);
    repeated.catch(() => {}); // awaited at the end of the share
    return repeated;
  };
  const producer = async (share: readonly SentEvent[]) => {
    const batches = batchesOf(share);
    const repeats: Promise<unknown>[] = [];
    for (const [i, batch] of batches.entries()) {
      await turn(batch.length);
      const gateway = dice.pick(gateways);
      if (dice.falls(TO_BOTH)) repeats.push(repeat(other(gateway), batch));
      await confirm(gateway, batch, options, figures);
      const earlier = batches[Math.floor(dice.between(0, i + 1))];
      if (earlier !== undefined && dice.falls(AGAIN_LATER)) repeats.push(repeat(other(gateway), earlier));
    }
    await Promise.all(repeats);
  };
  await Promise.all(shares.map(producer));
}

function batchesOf(share: readonly SentEvent[]): readonly Batch[] {
  const batches: Batch[] = [];
  for (let i = 0; i < share.length; i += BATCH) batches.push(share.slice(i, i + BATCH));
  return batches;
}

async function confirm(
  first: string,
  batch: Batch,
  options: ProducerOptions,
  figures: SendingFigures,
): Promise<void> {
  const { gateways, dice, patienceMs } = options;
  const from = performance.now();
  for (let attempt = 0, gateway = first; ; attempt++, gateway = dice.pick(gateways)) {
    if (await post(gateway, batch, options, figures)) break;
    if (performance.now() - from > patienceMs)
      throw new Error(`a batch was not confirmed in ${patienceMs} ms`);
    await sleep(Math.min(LONGEST_PAUSE_MS, 20 * 2 ** attempt));
  }
  figures.confirmed += batch.length;
  figures.slowestMs = Math.max(figures.slowestMs, performance.now() - from);
}

/**
 * True when all of the batch is durable, false when the outcome is unknown. Rejects with any other answer.
 */
async function post(
  gateway: string,
  batch: Batch,
  { workspaceId, writeKey }: ProducerOptions,
  { answers }: SendingFigures,
): Promise<boolean> {
  const count = (answer: string) => answers.set(answer, (answers.get(answer) ?? 0) + 1);
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${gateway}/api/v1/workspaces/${workspaceId}/events/batch`, {
      method: 'POST',
      headers: { authorization: `Bearer ${writeKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ batch: batch.map(({ event }) => event) }),
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    status = response.status;
    text = await response.text();
  } catch {
    count('none'); // killed, paused or about to be started
    return false;
  }
  count(String(status));
  if (status === 503) return false;
  if (status !== 202) throw new Error(`a gateway answered ${status}: ${text}`);
  const { accepted, rejected } = JSON.parse(text) as { accepted: number; rejected: readonly unknown[] };
  if (accepted === batch.length && rejected.length === 0) return true;
  throw new Error(`a gateway did not take the whole batch: ${text.slice(0, 500)}`);
}
