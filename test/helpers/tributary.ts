import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from './client.ts';
import { startCluster } from './cluster.ts';
import { startEmbedded } from './embedded.ts';

export interface StartOptions {
  /** Beside `PORT=0`, loopback, and a data folder in the system's temporary one. */
  readonly env?: Readonly<Record<string, string>>;
  /** An existing data folder, e.g. of a server that was killed. */
  readonly folder?: string;
}

/** A Tributary of its own for a test: the real commands in processes of their own. */
export interface Tributary {
  readonly url: string;
  readonly folder: string;
  /** Of the process that serves `url`. */
  readonly pid: number;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
  /** Calls as the owner of the workspace, in it. */
  readonly owner: Client;
  /** Calls with the write key. */
  readonly producer: Client;
  /** Everything it logged. */
  log(): string;
  /** What all its processes say at `/metrics`. */
  metrics(): Promise<string>;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves to its exit code. */
  stop(): Promise<number | null>;
  /** Stops it and removes its folder and what it keeps elsewhere. */
  remove(): Promise<void>;
}

/**
 * Starts one on the wiring this test run is for: everything in one process on SQLite, or, with
 * `TRIBUTARY_TEST_WIRING=cluster`, a gateway and a processor on the engines of the run.
 */
export function startTributary({ env = {}, folder }: StartOptions = {}): Promise<Tributary> {
  const start = process.env.TRIBUTARY_TEST_WIRING === 'cluster' ? startCluster : startEmbedded;
  return start(folder ?? mkdtempSync(join(tmpdir(), 'tributary-')), env);
}
