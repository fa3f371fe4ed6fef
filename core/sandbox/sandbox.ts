/** One event for a transformation: both are JSON texts. */
export interface SandboxInput {
  readonly event: string;
  readonly context: string;
}

export type SandboxErrorKind =
  /** The function threw, or its promise was rejected or never settled. */
  | 'threw'
  /** Ran longer than its budget. */
  | 'timeout'
  /** Took more memory than its isolate or its process may have. */
  | 'memory'
  /** Returned something that is no object, array of objects or null once written as JSON, or too much of it. */
  | 'output'
  /** The source does not compile or has no function `transform`. */
  | 'compile';

export type SandboxResult =
  | {
      readonly ok: true;
      /** JSON texts of the objects it returned; empty when the event was dropped. Whether they are events is not judged. */
      readonly outputs: readonly string[];
      readonly logs: readonly string[];
      readonly durationMs: number;
    }
  | {
      readonly ok: false;
      readonly kind: SandboxErrorKind;
      readonly message: string;
      readonly logs: readonly string[];
      readonly durationMs: number;
    };

export interface SandboxProgram {
  /** Unique for (transformation, version): programs are compiled once and kept under this name. */
  readonly id: string;
  readonly source: string;
}

export interface SandboxOptions {
  /** Keep what `console.log` wrote (test runs). Default false. */
  readonly captureLogs?: boolean;
}

/** Outputs of one event at most. */
export const MAX_OUTPUTS = 100;

/**
 * Runs user code with limits: 64 MB an isolate, 100 ms of wall time an event, at most `MAX_OUTPUTS` outputs an event
 * of at most `MAX_EVENT_BYTES` each.
 *
 * Promises: `run` answers for every input, in order, and a bad event costs only itself; whatever the code does, the
 * host process stays up and responsive, other programs are delayed by at most a bounded time, and no data passes from
 * one program to another.
 *
 * Errors: `Unavailable` when no worker process can be started.
 *
 * An implementer must not evaluate user code in the host process, nor give it the network, the file system, the
 * environment or timers.
 */
export interface Sandbox {
  /** Runs a program over a batch. Results are in the order of the inputs and as many. */
  run(
    program: SandboxProgram,
    inputs: readonly SandboxInput[],
    options?: SandboxOptions,
  ): Promise<readonly SandboxResult[]>;
  /** Compiles only: undefined when it does and has a function `transform`, else why not. */
  check(program: SandboxProgram): Promise<string | undefined>;
  close(): Promise<void>;
}
