/**
 * A real engine of the cluster wiring (Kafka, Redis, ...), started for a test run or for a person who develops. One
 * that was started by this process does not outlive it, even when this process is killed with SIGKILL.
 */
export interface Engine<Options, Running extends RunningEngine = RunningEngine> {
  readonly name: string;
  /**
   * Resolves once clients are answered. Rejects with an `EngineFailed` that carries the end of the log when it does not
   * come up, and with an `EngineMissing` when the machine lacks something that it needs.
   */
  start(options?: Options & StartOptions): Promise<Running>;
}

export interface StartOptions {
  /** Where `<name>.log` is written. Default: a temporary folder that goes away with `stop`. */
  readonly logFolder?: string;
}

/** An engine with data in a temporary folder of its own and a loopback port that it keeps for life. */
export interface RunningEngine {
  readonly name: string;
  /** The address for its clients, e.g. `127.0.0.1:19092` or `redis://127.0.0.1:16379`. */
  readonly url: string;
  /** The process that the signals below go to. Another one after a restart. */
  readonly pid: number;
  readonly logFile: string;
  /** SIGKILL; resolves once the process is gone. Its data stay, for `restart`. */
  kill(): Promise<void>;
  /** Sends SIGSTOP: once this resolves the engine no longer answers, and its connections stay open. */
  pause(): Promise<void>;
  /** SIGCONT. */
  resume(): Promise<void>;
  /**
   * Starts it again on the same port and data, after ending it in an orderly way if it still runs; resolves once it
   * answers.
   */
  restart(): Promise<void>;
  /** Ends it for good and removes its data. Does nothing the second time. */
  stop(): Promise<void>;
}

/** The engine was started and did not come up, or ended by itself before it was ready. */
export class EngineFailed extends Error {
  readonly code = 'engine_failed';
  override readonly name = 'EngineFailed';
}

/** The machine lacks something an engine needs; the message names the package to install. */
export class EngineMissing extends Error {
  readonly code = 'engine_missing';
  override readonly name = 'EngineMissing';
}
