import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Dice } from './dice.ts';
import { drained } from './drain.ts';
import { gather } from './evidence.ts';
import { Installation } from './installation.ts';
import { produce, type SendingFigures } from './producers.ts';
import { type FailingReceiver, startFailingReceiver } from './receiver.ts';
import { drawFindings } from './report.ts';
import { drawSchedule, PROCESSORS, type ScheduleOptions } from './schedule.ts';
import { repeatFlights, type SentEvent, shareOut } from './traffic.ts';
import { makeTroubles } from './troubles.ts';
import { agrees, type Finding, verify } from './verify.ts';
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
 * Resolves to the findings that do not hold, none when all is well, and then leaves nothing behind. Otherwise
 * the folder with all logs stays, and `tell` gets its path.
 */
export async function runChaos(
  options: ChaosOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-chaos-'));
  const dice = new Dice(options.seed);
  const receiver = await startFailingReceiver(new Dice(options.seed + 1));
  tell(`seed ${options.seed} (TRIBUTARY_CHAOS_SEED), ${options.events.toLocaleString('en')} events`);
  let wrong: readonly Finding[] | undefined;
  try {
    const installation = await Installation.start({
      folder,
      processors: PROCESSORS.length,
      partitions: PARTITIONS,
      sessionTimeoutMs: SESSION_TIMEOUT_MS,
    });
    try {
      const findings = await chaos(installation, receiver, options, dice, tell);
      wrong = findings.filter((finding) => !agrees(finding));
      return wrong;
    } finally {
      await installation.stop();
    }
  } finally {
    await receiver.close();
    if (wrong?.length === 0) await rm(folder, { recursive: true, force: true });
    else tell(`the logs of all processes are in ${folder}`);
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
  const findings = [...verify(events, evidence, workspace.ruleIds), aliveFinding(installation)];
  tell(`the webhook got ${receiver.came()} deliveries, ${receiver.came() - receiver.ids.size} of them again`);
  tell(`\n${drawFindings(findings)}`);
  return findings;
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
