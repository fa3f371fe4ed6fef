import { setTimeout as sleep } from 'node:timers/promises';
import type { Installation } from './installation.ts';
import type { Trouble } from './schedule.ts';

const POLL_MS = 20;

export interface TroubleTools {
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
export async function makeTroubles(troubles: readonly Trouble[], tools: TroubleTools): Promise<void> {
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
