import type { RunningEngine } from '../engines/index.ts';
import { engineOfFile } from './own-engines.ts';

/** A PostgreSQL server for one spec file, which stops it; see `engineOfFile`. */
export function postgresServer(): Promise<RunningEngine | undefined> {
  return engineOfFile('postgres');
}
