import type { LogEntry } from './event-log.ts';
import type { Emission, PoisonRecord } from './stage.ts';
import { TOPIC } from './topics.ts';

const MAX_ERROR_LENGTH = 2_000;

/** What goes to `stages.dead` for an entry that is given up; `at` is ISO 8601. */
export function poisonEmission(stage: string, entry: LogEntry, error: string, at: string): Emission {
  const { key, value, headers, position } = entry;
  const record: PoisonRecord = {
    stage,
    position,
    error: error.slice(0, MAX_ERROR_LENGTH),
    at,
    entry: { key, value, headers },
  };
  return { topic: TOPIC.poison, key, value: JSON.stringify(record), headers };
}
