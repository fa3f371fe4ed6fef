import type { EventLog } from '@tributary/core';
import { CrashNotes } from './crash-notes.ts';
import { InHandTable } from './in-hand-table.ts';
import { SuspectTurns } from './suspect-turns.ts';

/** What tells an entry that ends the process from the others. Of one log, shared by all stages that it runs. */
export interface CrashWatch {
  readonly table: InHandTable;
  readonly notes: CrashNotes;
  readonly turns: SuspectTurns;
}

export function crashWatch(
  log: Pick<EventLog, 'topics' | 'read' | 'end'>,
  table = new InHandTable(),
): CrashWatch {
  return { table, notes: new CrashNotes(log), turns: new SuspectTurns(table) };
}
