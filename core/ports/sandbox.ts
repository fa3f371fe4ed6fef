import type { Environment } from '../event/event.ts';

/** One event for a transformation. */
export interface SandboxInput {
  /** JSON text */
  readonly event: string;
  /** JSON text; the code gets it frozen. */
  readonly context: string;
  /** What time it is for the code, epoch ms. */
  readonly at: number;
  /** Names the sequence of random numbers the code gets. */
  readonly seed: string;
}

export const SANDBOX_LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type SandboxLogLevel = (typeof SANDBOX_LOG_LEVELS)[number];

/** One line that `console.debug`, `log` and `info` (both `info`), `warn` or `error` wrote. */
export interface SandboxLog {
  readonly level: SandboxLogLevel;
  readonly text: string;
}

/** Why something in a source failed and where, as far as that is known; both count from 1. */
export interface SandboxFault {
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
}

/** Figures and logs of one event's run. */
interface SandboxRun {
  readonly logs: readonly SandboxLog[];
  /** The wall time the event took, ms; its share of the whole where it is less than the clock can tell. */
  readonly durationMs: number;
  /** How long the program took to load for this call, ms; 0 when it was loaded. */
  readonly loadMs: number;
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

export type SandboxResult = SandboxRun &
  (
    | {
        readonly ok: true;
        /** JSON texts of the objects it returned; empty when the event was dropped. Whether they are events is not judged. */
        readonly outputs: readonly string[];
      }
    | ({ readonly ok: false; readonly kind: SandboxErrorKind } & SandboxFault)
  );

export interface SandboxProgram {
  /** Unique for (transformation, version): programs are compiled once and kept under this name. */
  readonly id: string;
  readonly source: string;
  /** Whose it is, a workspace: programs of one owner share its turns, and may run in one isolate. */
  readonly owner: string;
}

export interface SandboxOptions {
  /** Keep what `console` wrote (test runs). Default false. */
  readonly captureLogs?: boolean;
  /** Absent: the call runs to its end. */
  readonly pace?: SandboxOutputBudget;
}

/** Bounds what a call holds of the outputs of its events. */
export interface SandboxOutputBudget {
  /** Told of outputs as they arrive, characters. */
  made(chars: number): void;
  /** Asked before each part of the call. Once it says no the call ends with the results of its first events, or none. */
  goOn(): boolean;
}

/** Outputs of one event at most. */
export const MAX_OUTPUTS = 100;

/**
 * Runs user code with limits: usually 64 MB an isolate and 100 ms of wall time an event, at most `MAX_OUTPUTS` outputs an event
 * of at most `MAX_EVENT_BYTES` each, or of as much as the event and `OUTPUT_ROOM_BYTES`.
 *
 * Promises: `run` answers for every input, in order, and a bad event costs only itself; whatever the code does, the
 * host process stays up and responsive, other programs are delayed by at most a bounded time, and no data passes from
 * one program to another. An input has the same result in every run, whatever ran before it and whatever it shares a batch
 * with, unless a limit of time or memory ends it: nothing an event does is there for the next, the clock stands at `at`,
 * random numbers follow `seed`, times are UTC and texts en-US.
 *
 * Errors: `Unavailable` when no worker process can be started.
 *
 * An implementer must not evaluate user code in the host process, nor give it the network, the file system, the
 * environment or timers.
 */
export interface Sandbox {
  /** Runs a program over a batch. Results are in the order of the inputs and as many, unless its pace ended it. */
  run(
    program: SandboxProgram,
    inputs: readonly SandboxInput[],
    options?: SandboxOptions,
  ): Promise<readonly SandboxResult[]>;
  /** Compiles only: undefined when it does and has a function `transform`, else why not. */
  check(program: SandboxProgram): Promise<SandboxFault | undefined>;
  close(): Promise<void>;
}

/** The second argument of `transform(event, context)`, frozen to its depths. */
export interface TransformationContext {
  readonly workspace_id: string;
  /** The rule it runs for, as it is called now; both null in a test. */
  readonly rule_id: string | null;
  readonly rule_name: string | null;
  readonly environment: Environment;
  /** What the event's contract said of it; id and version are null where none judged it. */
  readonly contract: {
    readonly outcome: 'accepted' | 'warned' | 'omitted';
    readonly id: string | null;
    readonly version: number | null;
  };
}

/** What decides a run beside the event and its context. */
export interface RunIdentity {
  readonly message_id: string;
  /** ISO 8601: the time it is in the run. */
  readonly received_at: string;
}

/**
 * One event for the sandbox. The clock stands at the event's receipt and random numbers follow from rule, environment
 * and message, as the ids of its deliveries do: whoever runs it again gets the same.
 */
export function transformationInput(
  event: string,
  context: TransformationContext,
  { message_id, received_at }: RunIdentity,
): SandboxInput {
  const at = Date.parse(received_at);
  return {
    event,
    context: JSON.stringify(context),
    at: Number.isNaN(at) ? 0 : at,
    seed: `${context.rule_id ?? ''}:${context.environment}:${message_id}`,
  };
}
