import { setTimeout as sleep } from 'node:timers/promises';
import { Dice } from './dice.ts';
import { drained } from './drain.ts';
import { gather } from './evidence.ts';
import type { Installation } from './installation.ts';
import { produce, type SendingFigures } from './producers.ts';
import { type FailingReceiver, startFailingReceiver } from './receiver.ts';
import { runOnInstallation } from './report.ts';
import { drawSchedule, PROCESSORS, type ScheduleOptions, type Trouble } from './schedule.ts';
import { repeatFlights, type SentEvent, shareOut } from './traffic.ts';
import { type Finding, verify } from './verify.ts';
import { prepareChaosWorkspace } from './workspace.ts';

export interface ChaosOptions extends Omit<ScheduleOptions, 'sessionTimeoutMs'> {
  readonly seed: number;
  readonly events: number;
  /** Events sent in a second at most, so that the faults meet events in flight. */
  readonly rate: number;
  readonly drainWithinMs: number;
}

const SESSION_TIMEOUT_MS = 4_000;
const PARTITIONS = 4;
const PRODUCERS = 8;
const PATIENCE_MS = 180_000;

/**
 * Sends events while everything that can be killed is killed, and checks the outcome against the events sent.
 */
export async function runChaos(
  options: ChaosOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const dice = new Dice(options.seed);
  const receiver = await startFailingReceiver(new Dice(options.seed + 1));
  tell(`seed ${options.seed} (TRIBUTARY_CHAOS_SEED), ${options.events.toLocaleString('en')} events`);
  try {
    return await runOnInstallation(
      'chaos',
      { processors: PROCESSORS.length, partitions: PARTITIONS, sessionTimeoutMs: SESSION_TIMEOUT_MS },
      tell,
      (installation) => chaos(installation, receiver, options, dice, tell),
    );
  } finally {
    await receiver.close();
  }
}

async function chaos(
  installation: Installation,
  receiver: FailingReceiver,
  options: ChaosOptions,
  dice: Dice,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const workspace = await prepareChaosWorkspace(await installation.person(), receiver.url);
  const events = repeatFlights(options.events);
  const troubles = drawSchedule({ ...options, sessionTimeoutMs: SESSION_TIMEOUT_MS }, dice);
  const figures: SendingFigures = { confirmed: 0, duplicates: 0, answers: new Map(), slowestMs: 0 };
  const from = performance.now();
  const failed = new AbortController();
  const sending = produce(
    shareOut(events, PRODUCERS),
    {
      gateways: installation.gateways,
      workspaceId: workspace.workspaceId,
      writeKey: workspace.writeKey,
      rate: options.rate,
      dice,
      patienceMs: PATIENCE_MS,
    },
    figures,
  );
  sending.catch(() => failed.abort());
  const progress = () => figures.confirmed / events.length;
  await Promise.all([
    sending,
    makeTroubles(troubles, { installation, progress, tell, signal: failed.signal }),
  ]);
  const sentMs = performance.now() - from;
  const drainMs = await drained(installation, options.drainWithinMs);
  tellSending(events, figures, sentMs, drainMs, tell);
  const evidence = await gather(installation, workspace, receiver.ids);
  tell(`the webhook got ${receiver.came()} deliveries, ${receiver.came() - receiver.ids.size} of them again`);
  return [...verify(events, evidence, workspace.ruleIds), aliveFinding(installation)];
}

function tellSending(
  events: readonly SentEvent[],
  { duplicates, answers, slowestMs }: SendingFigures,
  sentMs: number,
  drainMs: number,
  tell: (line: string) => void,
): void {
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
  tell(
    `sent ${events.length} events and ${duplicates} of them again in ${seconds(sentMs)}; drained ${seconds(drainMs)} later`,
  );
  const said = [...answers].map(([answer, times]) => `${answer} ${times} times`).join(', ');
  tell(`answers to batches: ${said}; the slowest was confirmed after ${seconds(slowestMs)}`);
}

/** Our processes must end only on request, despite failures around them. */
function aliveFinding({ processes }: Installation): Finding {
  const faults = processes.flatMap(({ name, endedByItself }) =>
    endedByItself.map((code) => `${name} ended with ${code}`),
  );
  return { what: 'processes that ended by themselves', answer: faults.length, expected: 0, faults };
}

const POLL_MS = 20;

interface TroubleTools {
  readonly installation: Installation;
  /** Share of the events that is confirmed, 0 to 1. */
  readonly progress: () => number;
  readonly tell: (line: string) => void;
  /** Ends the troubles early, when sending failed. */
  readonly signal: AbortSignal;
}

/**
 * Triggers each fault at its time. It waits only for restarts of an engine; all other faults may overlap with
 * the effects of earlier ones. Resolves when everything runs again.
 */
async function makeTroubles(troubles: readonly Trouble[], tools: TroubleTools): Promise<void> {
  const underWay: Promise<unknown>[] = [];
  for (const trouble of troubles) {
    while (tools.progress() < trouble.at && !tools.signal.aborted) await sleep(POLL_MS);
    if (tools.signal.aborted) break;
    tools.tell(`${(tools.progress() * 100).toFixed(0).padStart(3)} %  ${wordsOf(trouble)}`);
    const done = make(trouble, tools);
    done.catch(() => {}); // awaited below
    if (trouble.kind === 'restart') await done;
    underWay.push(done);
  }
  await Promise.all(underWay);
  await tools.installation.becomesReady();
}

async function make(trouble: Trouble, { installation, tell }: TroubleTools): Promise<void> {
  const extra = 'processor-4';
  switch (trouble.kind) {
    case 'kill':
      return installation.process(trouble.process).kill();
    case 'pause':
      return installation.process(trouble.process).pause(trouble.forMs);
    case 'join':
      await installation.add(extra);
      return;
    case 'leave':
      return tell(`       ${extra} left in ${Math.round(await installation.take(extra))} ms`);
    case 'restart': {
      const engine = installation[trouble.engine];
      if (trouble.how === 'kill') await engine.kill();
      await engine.restart();
      return tell(`       ${trouble.engine} answers again`);
    }
  }
}

function wordsOf(trouble: Trouble): string {
  switch (trouble.kind) {
    case 'kill':
      return `SIGKILL ${trouble.process}`;
    case 'pause':
      return `SIGSTOP ${trouble.process} for ${trouble.forMs} ms`;
    case 'join':
      return 'one more processor';
    case 'leave':
      return 'SIGTERM to that one';
    case 'restart':
      return `${trouble.how === 'kill' ? 'SIGKILL' : 'SIGTERM'} ${trouble.engine}, and start again`;
  }
}
