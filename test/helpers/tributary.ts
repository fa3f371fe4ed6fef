import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startCluster } from './cluster.ts';
import { startEmbedded } from './embedded.ts';
import type { Tributary } from './running-tributary.ts';

export type { Tributary };

export interface StartOptions {
  /** In addition to `PORT=0`, loopback, and a data folder in the system's temporary one. */
  readonly env?: Readonly<Record<string, string>>;
  /** An existing data folder, e.g. of a server that was killed. */
  readonly folder?: string;
}

/** The address of the owner that the development issuer signs in. */
export const OWNER = 'dev@tributary.localhost';

/** Whether this test run is on the engines; else everything is in one process on SQLite. */
export const onCluster = process.env.TRIBUTARY_TEST_WIRING === 'cluster';

/**
 * Starts one on the wiring of this test run: everything in one process on SQLite, or, with
 * `TRIBUTARY_TEST_WIRING=cluster`, a gateway and a processor on the engines of the run.
 */
export function startTributary({ env = {}, folder }: StartOptions = {}): Promise<Tributary> {
  const start = onCluster ? startCluster : startEmbedded;
  return start(folder ?? mkdtempSync(join(tmpdir(), 'tributary-')), env);
}
