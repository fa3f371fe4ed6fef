/**
 * A real engine of the cluster wiring (Kafka, Redis, ...), started for a test run or for a developer. An
 * engine started by this process never outlives it, even when this process is killed with SIGKILL.
 */
export interface Engine<Options, Running extends RunningEngine = RunningEngine> {
  readonly name: string;
  /**
   * Resolves once it answers clients. Rejects with an `EngineFailed` that contains the end of the log when it
   * does not start, and with an `EngineMissing` when the machine lacks a requirement.
   */
  start(options?: Options & StartOptions): Promise<Running>;
}

export interface StartOptions {
  /** The folder of `<name>.log`. Default: a temporary folder that `stop` removes. */
  readonly logFolder?: string;
}

/** An engine with data in its own temporary folder and a loopback port that it keeps for life. */
export interface RunningEngine {
  readonly name: string;
  /** The address for its clients, e.g. `127.0.0.1:19092` or `redis://127.0.0.1:16379`. */
  readonly url: string;
  /** The process that gets the signals below. It changes with a restart. */
  readonly pid: number;
  readonly logFile: string;
  /** False once its process has ended, by `kill` or by itself. */
  readonly isRunning: boolean;
  /** SIGKILL; resolves once the process has ended. Its data stay, for `restart`. */
  kill(): Promise<void>;
  /** Sends SIGSTOP: once this resolves the engine no longer answers, and its connections stay open. */
  pause(): Promise<void>;
  /** SIGCONT. */
  resume(): Promise<void>;
  /**
   * Restarts it on the same port and data, after a clean shutdown if it still runs; resolves once it answers.
   */
  restart(): Promise<void>;
  /** Ends it and removes its data. The second call does nothing. */
  stop(): Promise<void>;
}

/** The engine did not start, or ended on its own before it was ready. */
export class EngineFailed extends Error {
  readonly code = 'engine_failed';
  override readonly name = 'EngineFailed';
}

/** The machine lacks something an engine needs; the message names the package to install. */
export class EngineMissing extends Error {
  readonly code = 'engine_missing';
  override readonly name = 'EngineMissing';
}
