import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../helpers/client.ts';
import { atMost } from '../helpers/pacing.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import { drained } from './drain.ts';
import type { Installation } from './installation.ts';
import { runOnInstallation } from './report.ts';
import { GATEWAYS, PROCESSORS } from './schedule.ts';
import type { Finding } from './verify.ts';

export interface OperationsOptions {
  readonly events: number;
  /** Events sent in a second at most: slow enough that all works fall into the sending. */
  readonly rate: number;
  readonly drainWithinMs: number;
}

const [PARTITIONS, GROWN] = [4, 8];
const PRODUCERS = 8;
const BATCH = 100;
const SUBJECTS = 20_000;
const NAMES = ['Product Viewed', 'Cart Updated', 'Order Placed', 'Order Refunded'] as const;
const SESSION_TIMEOUT_MS = 10_000;
const ANSWER_WITHIN_MS = 15_000;
/** Longer than any of the works takes. */
const CONFIRMED_WITHIN_MS = 300_000;

interface Workspace {
  readonly id: string;
  readonly owner: Client;
  readonly writeKey: string;
}

/** The progress and the answers of the producers. */
interface Sending {
  confirmed: number;
  readonly answers: Map<string, number>;
  slowestMs: number;
}

/**
 * Operations on a cluster of two gateways and three processors, while producers send: a rolling restart of all
 * processes, a restart of the broker, a growth of all topics. Producers send a batch again until it is confirmed. Verifies that
 * each event is counted once, and the funnel.
 */
export async function runOperations(
  { events, rate, drainWithinMs }: OperationsOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const options = {
    processors: PROCESSORS.length,
    partitions: PARTITIONS,
    sessionTimeoutMs: SESSION_TIMEOUT_MS,
    // How long the growth waits between its announcement and its adoption.
    env: { TRIBUTARY_CATALOG_STALENESS: '10s' },
  };
  return runOnInstallation('operations', options, tell, async (installation) => {
    const workspace = await prepareWorkspace(installation);
    const sending: Sending = { confirmed: 0, answers: new Map(), slowestMs: 0 };
    const from = performance.now();
    await Promise.all([
      produce(installation, workspace, { events, rate }, sending),
      operate(installation, (share) => reached(sending, share * events), tell),
    ]);
    const seconds = (performance.now() - from) / 1_000;
    tell(
      `${events.toLocaleString('en')} events confirmed in ${Math.round(seconds)} s; answers to batches: ${[...sending.answers].map(([answer, times]) => `${answer} ${times} times`).join(', ')}; the slowest was confirmed after ${Math.round(sending.slowestMs)} ms`,
    );
    tell(`drained ${Math.round(await drained(installation, drainWithinMs))} ms later`);
    return findingsOf(installation, workspace, events);
  });
}

async function prepareWorkspace(installation: Installation): Promise<Workspace> {
  const person = await installation.person();
  const { id } = await person.post<{ id: string }>('/workspaces', { name: 'Operations' });
  const owner = person.with({ workspaceId: id });
  const { key } = await owner.post<{ key: string }>('./event-keys', {
    name: 'producers',
    environment: 'production',
  });
  return { id, owner, writeKey: key };
}

async function reached(sending: Sending, events: number): Promise<void> {
  while (sending.confirmed < events) await sleep(50);
}

/** The works, each once a share of the events is confirmed. */
async function operate(
  installation: Installation,
  until: (share: number) => Promise<void>,
  tell: (line: string) => void,
): Promise<void> {
  await until(0.15);
  for (const name of [...GATEWAYS, ...PROCESSORS]) await installation.process(name).restart();
  tell('restarted all processes, one after the other');
  await until(0.45);
  await installation.kafka.restart();
  tell('restarted the broker');
  await until(0.65);
  const growing = new ServerProcess(['topics', '--partitions', String(GROWN)], {
    ...installation.environment,
    LOG_LEVEL: 'warn',
  });
  const code = await growing.ended();
  if (code !== 0) throw new Error(`the growth ended with ${code}: ${growing.log}`);
  tell(`grew all topics from ${PARTITIONS} to ${GROWN} partitions`);
}

/** Sends events in batches, each until it is confirmed, to the gateways in turn. */
async function produce(
  { gateways }: Installation,
  workspace: Workspace,
  { events, rate }: Pick<OperationsOptions, 'events' | 'rate'>,
  sending: Sending,
): Promise<void> {
  let next = 0;
  const turnOf = atMost(rate);
  const producer = async (turn: number) => {
    for (let first = next; first < events; first = next) {
      next += BATCH;
      const batch = Array.from({ length: Math.min(BATCH, events - first) }, (_, i) => eventOf(first + i));
      const body = JSON.stringify({ batch });
      await turnOf(batch.length);
      const from = performance.now();
      for (
        let attempt = turn;
        !(await post(gateways[attempt % 2] ?? '', workspace, body, sending));
        attempt++
      ) {
        if (performance.now() - from > CONFIRMED_WITHIN_MS)
          throw new Error(`a batch was not confirmed in ${CONFIRMED_WITHIN_MS} ms`);
        await sleep(200);
      }
      sending.confirmed += batch.length;
      sending.slowestMs = Math.max(sending.slowestMs, performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, (_, turn) => producer(turn)));
}

function eventOf(n: number): object {
  return {
    type: 'track',
    event: NAMES[n % NAMES.length],
    message_id: `operations-${n}`,
    user_id: `user-${n % SUBJECTS}`,
    properties: { n, price: (n % 1_000) / 10, currency: 'EUR', category: `c${n % 37}` },
  };
}

/** True when the batch is durable, false when that is unknown. Throws for an answer that repeating does not change. */
async function post(
  gateway: string,
  { id, writeKey }: Workspace,
  body: string,
  { answers }: Sending,
): Promise<boolean> {
  const response = await fetch(`${gateway}/api/v1/workspaces/${id}/events/batch`, {
    method: 'POST',
    headers: { authorization: `Bearer ${writeKey}`, 'content-type': 'application/json' },
    body,
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  }).catch(() => undefined);
  const text = await response?.text().catch(() => undefined);
  const answer = text === undefined ? 'none' : String(response?.status);
  answers.set(answer, (answers.get(answer) ?? 0) + 1);
  if (answer === 'none' || answer === '503') return false;
  if (answer !== '202') throw new Error(`a gateway answered ${answer}: ${text}`);
  return true;
}

async function findingsOf(
  installation: Installation,
  { owner }: Workspace,
  events: number,
): Promise<readonly Finding[]> {
  const rows = await owner.ok<readonly { event_name: string; event_count: number }[]>(
    'GET',
    './event-volume?hours=24',
  );
  const { totals } = await owner.ok<{ totals: Readonly<Record<string, number>> }>(
    'GET',
    './funnel?interval=hour',
  );
  const finding = (what: string, answer: number, expected: number): Finding => ({
    what,
    answer,
    expected,
    faults: [],
  });
  const counted = (name: string) =>
    rows
      .filter(({ event_name }) => event_name === name)
      .reduce((sum, { event_count }) => sum + event_count, 0);
  return [
    ...NAMES.map((name, i) =>
      finding(`counted: ${name}`, counted(name), Math.ceil((events - i) / NAMES.length)),
    ),
    finding('accepted, by the funnel', totals.accepted ?? 0, events),
    finding(
      'received, by the funnel, without duplicates',
      (totals.received ?? 0) - (totals.duplicate ?? 0),
      events,
    ),
    finding(
      'processes that ended by themselves',
      installation.processes.flatMap(({ endedByItself }) => endedByItself).length,
      0,
    ),
  ];
}
