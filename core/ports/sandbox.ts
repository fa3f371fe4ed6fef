import type { Environment } from '../event/event.ts';

/** One event for a transformation. */
export interface SandboxInput {
  /** JSON text */
  readonly event: string;
  /** JSON text; the code receives it frozen. */
  readonly context: string;
  /** The time that the code sees, epoch ms. */
  readonly at: number;
  /** Seed of the random numbers that the code gets. */
  readonly seed: string;
}

export const SANDBOX_LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type SandboxLogLevel = (typeof SANDBOX_LOG_LEVELS)[number];

/** One line that `console.debug`, `log` and `info` (both `info`), `warn` or `error` wrote. */
interface SandboxLog {
  readonly level: SandboxLogLevel;
  readonly text: string;
}

/** An error in the source and its location, where known; line and column count from 1. */
export interface SandboxFault {
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
}

/** Durations and logs of one event's run. */
interface SandboxRun {
  readonly logs: readonly SandboxLog[];
  /** Wall time of the event, ms; its share of the batch where the clock is too coarse. */
  readonly durationMs: number;
  /** Time to load the program for this call, ms; 0 when it was loaded already. */
  readonly loadMs: number;
}

export type SandboxErrorKind =
  /** The function threw, or its promise was rejected or never settled. */
  | 'threw'
  /** It exceeded its time budget. */
  | 'timeout'
  /** It exceeded the memory of its isolate or process. */
  | 'memory'
  /** It returned something other than an object, an array of objects or null in JSON, or too much of it. */
  | 'output'
  /** The source does not compile or has no function `transform`. */
  | 'compile';

export type SandboxResult = SandboxRun &
  (
    | {
        readonly ok: true;
        /** JSON texts of the returned objects; empty when the event was dropped. They are not validated as events. */
        readonly outputs: readonly string[];
      }
    | ({ readonly ok: false; readonly kind: SandboxErrorKind } & SandboxFault)
  );

export interface SandboxProgram {
  /** Unique for (transformation, version): compiled programs are cached by it. */
  readonly id: string;
  readonly source: string;
  /** The owning workspace: programs of one owner share its scheduling turns, and may share an isolate. */
  readonly owner: string;
}

interface SandboxOptions {
  /** Return console output (for test runs). Default false. */
  readonly captureLogs?: boolean;
  /** Absent: the call processes all inputs. */
  readonly budget?: SandboxOutputBudget;
}

/** Bounds the outputs that a call accumulates. */
export interface SandboxOutputBudget {
  /** Adds outputs as they arrive, characters. */
  add(chars: number): void;
  /**
   * Checked before each part of the call. Once false, the call ends with the results of its first events, or none.
   */
  hasRoom(): boolean;
}

/** Bound on the outputs of one event. */
export const MAX_OUTPUTS = 100;

/**
 * Runs user code with limits: usually 64 MiB an isolate and 100 ms of wall time an event, at most `MAX_OUTPUTS`
 * outputs an event of at most `MAX_EVENT_BYTES` each, or of the event's size plus `OUTPUT_ROOM_BYTES`.
 *
 * Promises:
 * - `run` returns a result for every input, in order, and a failing event affects only itself.
 * - The host process stays up and responsive, other programs are delayed by at most a bounded time, and no data passes
 *   from one program to another, whatever the code does.
 * - An input has the same result in every run, whatever ran before and whatever is in its batch, unless a limit of
 *   time or memory ends it: no state is kept between events, the clock stands at `at`, random numbers follow `seed`,
 *   times are in UTC and texts in en-US.
 *
 * Errors: `Unavailable` when no worker process can be started.
 *
 * An implementer must not evaluate user code in the host process, nor give it the network, the file system, the
 * environment or timers.
 */
export interface Sandbox {
  /** Runs a program over a batch. One result for each input, in order, unless its output budget ended the call. */
  run(
    program: SandboxProgram,
    inputs: readonly SandboxInput[],
    options?: SandboxOptions,
  ): Promise<readonly SandboxResult[]>;
  /** Compiles a program: undefined when it is valid and has a function `transform`, else the fault. */
  check(program: SandboxProgram): Promise<SandboxFault | undefined>;
  close(): Promise<void>;
}

/** The second argument of `transform(event, context)`, deeply frozen. */
export interface TransformationContext {
  readonly workspace_id: string;
  /** The rule and its current name; both null in a test. */
  readonly rule_id: string | null;
  readonly rule_name: string | null;
  readonly environment: Environment;
  /** The verdict of the event's contract; id and version are null without a contract. */
  readonly contract: {
    readonly outcome: 'accepted' | 'warned' | 'omitted';
    readonly id: string | null;
    readonly version: number | null;
  };
}

/** Further inputs of a run. */
interface RunIdentity {
  readonly message_id: string;
  /** ISO 8601: the time that the code sees. */
  readonly received_at: string;
}

/**
 * The sandbox input of one event. The clock stands at the event's receipt and random numbers follow from rule,
 * environment and message, like the ids of its deliveries: every repetition gives the same result.
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
