import { setTimeout as sleep } from 'node:timers/promises';
import { Dice } from './dice.ts';
import { drained } from './drain.ts';
import { gather } from './evidence.ts';
import { type Installation, type InstallationOptions, PROCESSORS } from './installation.ts';
import { produce, type SendingFigures } from './producers.ts';
import { startFailingReceiver } from './receiver.ts';
import { runOnInstallation } from './report.ts';
import { repeatFlights, shareOut } from './traffic.ts';
import { type Finding, verify } from './verify.ts';
import { type PickedBy, prepareChaosWorkspace } from './workspace.ts';

/** What is done to an installation while events flow. */
export interface Form {
  readonly name: string;
  readonly events: number;
  /** Events sent in a second at most, so that the troubles meet events in flight. */
  readonly rate: number;
  readonly drainWithinMs: number;
  readonly installation: Omit<InstallationOptions, 'folder' | 'processors'>;
  readonly pickedBy?: PickedBy;
  /** Resolves when everything runs again. */
  readonly troubles: (run: Run) => Promise<void>;
  /** The numbers of partitions before topics were grown. */
  readonly earlier?: readonly number[];
  readonly findings?: (installation: Installation) => Promise<readonly Finding[]>;
}

export interface Run {
  readonly installation: Installation;
  readonly dice: Dice;
  /** Resolves once this share of the events, 0 to 1, is confirmed; rejects where sending failed. */
  readonly until: (share: number) => Promise<void>;
  readonly tell: (line: string) => void;
}

const PRODUCERS = 8;
const PATIENCE_MS = 300_000;
const POLL_MS = 20;

/** Sends events while the troubles of the form are made, and checks the outcome against the events sent. */
export async function runForm(
  form: Form,
  seed: number,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const receiver = await startFailingReceiver(new Dice(seed + 1));
  tell(`seed ${seed} (TRIBUTARY_CHAOS_SEED), ${form.events.toLocaleString('en')} events`);
  try {
    const options = { ...form.installation, processors: PROCESSORS.length };
    return await runOnInstallation(form.name, options, tell, async (installation) => {
      const dice = new Dice(seed);
      const person = await installation.person();
      const workspace = await prepareChaosWorkspace(person, receiver.url, form.pickedBy);
      const { workspaceId, writeKey, ruleIds } = workspace;
      const { gateways } = installation;
      const events = repeatFlights(form.events);
      const figures: SendingFigures = { confirmed: 0, duplicates: 0, answers: new Map(), slowestMs: 0 };
      const from = performance.now();
      const options = { gateways, workspaceId, writeKey, rate: form.rate, dice, patienceMs: PATIENCE_MS };
      const sending = produce(shareOut(events, PRODUCERS), options, figures);
      const failed = new AbortController();
      sending.catch((thrown) => failed.abort(thrown));
      const until = async (share: number) => {
        while (figures.confirmed < share * events.length) {
          failed.signal.throwIfAborted();
          await sleep(POLL_MS);
        }
      };
      await Promise.all([sending, form.troubles({ installation, dice, until, tell })]);
      const sentMs = performance.now() - from;
      tellSending(figures, sentMs, await drained(installation, form.drainWithinMs), tell);
      tell(
        `the webhook got ${receiver.came()} deliveries, ${receiver.came() - receiver.ids.size} of them again`,
      );
      const evidence = await gather(installation, workspace, receiver.ids);
      return [
        ...verify(events, evidence, ruleIds, form.earlier),
        aliveFinding(installation),
        ...((await form.findings?.(installation)) ?? []),
      ];
    });
  } finally {
    await receiver.close();
  }
}

function tellSending(
  { confirmed, duplicates, answers, slowestMs }: SendingFigures,
  sentMs: number,
  drainMs: number,
  tell: (line: string) => void,
): void {
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
  tell(
    `sent ${confirmed} events and ${duplicates} of them again in ${seconds(sentMs)}; drained ${seconds(drainMs)} later`,
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
