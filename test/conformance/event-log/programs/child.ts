import { type EventLog, type Stage, type StageRun, TributaryError, Unavailable } from '@tributary/core';
import { tell } from '../../../helpers/child.ts';
import type { EventLogHarness, Medium } from '../suite/harness.ts';
import { RECEIVED, SOURCE } from '../suite/harness.ts';
import type { ChildLine, ChildTask } from './child-process.ts';
import { batchCopy, flowCopy } from './copy-stages.ts';

/** A process that appends, or runs stages, until it is killed; SIGTERM makes it leave cleanly. */
const [module, mediumText, taskText] = process.argv.slice(2);
if (!module || !mediumText || !taskText) throw new Error('child.ts <harness module> <medium> <task>');
const { harness }: { harness: EventLogHarness } = await import(module);
const medium: Medium = JSON.parse(mediumText);
const task: ChildTask = JSON.parse(taskText);

const log = await harness.open(medium);
process.once('SIGTERM', () => void log.close().then(() => process.exit(0)));
if (task.mode === 'append') await appendForever(log, task.run, task.callers);
else await runStages(log);

function say(line: ChildLine): void {
  tell(line);
}

async function appendForever(to: EventLog, run: number, callers: number): Promise<void> {
  const headers = { 'catalog-position': String(run) };
  const append = async (topic: string, caller: string) => {
    for (let n = 0; ; n++) {
      await to.append(topic, [{ key: caller, value: JSON.stringify({ caller, n }), headers }]);
      say({ acknowledged: { topic, caller, n } });
    }
  };
  await Promise.all(
    Array.from({ length: callers }, (_, i) => append(i % 2 ? SOURCE : RECEIVED, `run${run}-caller${i}`)),
  );
}

async function runStages(on: EventLog): Promise<void> {
  const runs = [await runOnceThere(on, batchCopy()), await runOnceThere(on, flowCopy())];
  say({ ready: true });
  try {
    await Promise.all(runs.map((run) => run.ended));
  } catch (error) {
    say({ ended: error instanceof TributaryError ? error.code : String(error) });
    process.exit(3);
  }
}

/** A stopped owner may block the engine for a while. */
async function runOnceThere(on: EventLog, stage: Stage): Promise<StageRun> {
  for (;;) {
    try {
      return await on.run(stage);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    }
  }
}
