import type { Client } from './client.ts';

/** A Tributary for one test: the real commands in separate processes. */
export interface Tributary {
  readonly url: string;
  /** The admin port of the process that serves `url`. */
  readonly adminUrl: string;
  readonly folder: string;
  /** Of its processes. */
  readonly environment: Readonly<Record<string, string>>;
  /** Of the process that serves `url`. */
  readonly pid: number;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
  /** Signs a browser in, once. Absent where the processes of a cluster run. */
  readonly consoleLink?: string;
  /** Calls as the owner of the workspace, in it. */
  readonly owner: Client;
  /** Calls with the write key. */
  readonly producer: Client;
  /** All its log output. */
  log(): string;
  /** The metrics of all its processes, collected after the call. */
  metrics(): Promise<string>;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves to its exit code. */
  stop(): Promise<number | null>;
  /** Stops it and removes its folder and its data elsewhere. */
  remove(): Promise<void>;
}
