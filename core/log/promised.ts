import type { LogEntry } from './event-log.ts';
import type { Emission, FlowStage, StageContext } from './stage.ts';

/** What a flow stage does, of a function that promises what an entry emits. */
export function promised(
  work: (entry: LogEntry, context: StageContext) => Promise<readonly Emission[]>,
): FlowStage['handle'] {
  return (entry, context) => {
    work(entry, context).then(
      (emissions) => context.done(emissions),
      (thrown) => context.failed(thrown),
    );
  };
}

/** What an entry emits that is handed to a flow stage by who is no log. Rejects with what the stage failed with. */
export function handled(
  stage: FlowStage,
  entry: LogEntry,
  context: StageContext,
): Promise<readonly Emission[]> {
  return new Promise((done, failed) => {
    stage.handle(entry, { ...context, bytes: Buffer.byteLength(entry.value), done, failed });
  });
}
