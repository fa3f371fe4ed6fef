import {
  type EventLog,
  NO_METRICS,
  type ProcessBoard,
  type StageReads,
  type SystemSnapshot,
  type SystemView,
} from '@tributary/core';
import { StageMetrics } from './stage-metrics.ts';
import { StageProgressReader } from './stage-progress.ts';

/** A snapshot is answered again for this time, ms: the work does not grow with the number of operators who look. */
const VALID_FOR_MS = 2_000;

/** The view of an installation by its log and by what the processes report; read when it is asked for. */
export function createSystemView(
  log: Pick<EventLog, 'progress' | 'read'>,
  stages: readonly StageReads[],
  board: Pick<ProcessBoard, 'read'>,
): SystemView {
  const reader = new StageProgressReader(log, stages);
  // For the rates of the last minute, without reporting them.
  const loads = new StageMetrics(NO_METRICS);
  let last: SystemSnapshot | undefined;
  let reading: Promise<SystemSnapshot> | undefined;

  async function read(): Promise<SystemSnapshot> {
    const [processes, samples] = await Promise.all([board.read(), reader.sample()]);
    const statuses = [...samples].map(([stage, sample]) => ({
      stage,
      sample,
      load: loads.report(stage, sample),
    }));
    last = { at: Date.now(), stages: statuses, processes };
    return last;
  }

  return {
    read() {
      if (last !== undefined && Date.now() - last.at < VALID_FOR_MS) return Promise.resolve(last);
      reading ??= read().finally(() => {
        reading = undefined;
      });
      return reading;
    },
  };
}
