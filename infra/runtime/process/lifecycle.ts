import { type Logger, messageOf, TributaryError } from '@tributary/core';

/**
 * An error in the environment of a process that the operator can fix, e.g. a port that is taken. Its message says what to
 * do, so it is reported without a stack.
 */
export class OperatorError extends Error {}

/** Runs a command. An error that the operator can fix is reported on standard error, with exit code 1. */
export async function reportErrors(command: string, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof OperatorError || error instanceof TributaryError)) throw error;
    process.stderr.write(`tributary ${command}: ${error.message}\n`);
    return 1;
  }
}

/** As `OperatorError` an error of the file system, e.g. a full disk; any other error as it is. */
export function translateFileError(error: unknown): unknown {
  const isOfFiles = error instanceof Error && 'syscall' in error && 'code' in error;
  return isOfFiles ? new OperatorError(error.message, { cause: error }) : error;
}

/** Signals within this time count as one: the terminal sends Ctrl-C to npm as well, which passes it on. */
const SAME_SIGNAL_MS = 1_000;

/** SIGHUP, of a terminal or supervisor that goes away, as SIGTERM: nothing is read anew while a process runs. */
const SIGNALS = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const;

type ShutdownSignal = (typeof SIGNALS)[number];

export interface ShutdownOptions {
  readonly logger: Logger;
  /** How long closing may take, ms. */
  readonly graceMs: number;
}

/** The shutdown of a process, shared with its work. */
export interface Shutdown {
  /** True from the first signal on: the process reports that it is not ready. */
  hasBegun: boolean;
  /** Runs at SIGTERM and SIGHUP, before anything is closed, until load balancers have noticed. Set by the work once it is ready. */
  drain?: () => Promise<void>;
}

/**
 * Runs a process until a signal, or until its work fails. It drains first, but at SIGINT. Then everything that `work`
 * has opened is closed, in the reverse order: each part takes no more work and finishes what it has. A second signal, or
 * the end of the grace period, exits at once with code 1. Resolves to the exit code; rejects with the failure.
 */
export async function runUntilSignalled(
  { logger, graceMs }: ShutdownOptions,
  work: (cleanup: CleanupStack, shutdown: Shutdown) => Promise<never>,
): Promise<number> {
  const cleanup = new CleanupStack();
  const shutdown: Shutdown = { hasBegun: false };
  const signalled = firstSignal(logger, shutdown);
  let failure: { readonly error: unknown } | undefined;
  try {
    const working = work(cleanup, shutdown);
    const signal = await Promise.race([signalled, working]);
    // SIGINT comes from a terminal, where no load balancer is in front.
    if (signal !== 'SIGINT' && shutdown.drain !== undefined) await Promise.race([shutdown.drain(), working]);
  } catch (error) {
    // `reportErrors` says it in one line, without a log entry that says it again.
    if (!(error instanceof OperatorError))
      logger.error({ error: messageOf(error) }, 'shutting down after a failure');
    failure = { error };
  }
  shutdown.hasBegun = true;
  const forced = setTimeout(() => endNow(logger, 'TRIBUTARY_SHUTDOWN_GRACE is over'), graceMs);
  try {
    await cleanup.close();
  } catch (error) {
    failure ??= { error };
  }
  clearTimeout(forced);
  if (failure !== undefined) throw failure.error;
  return 0;
}

/** Resolves at the first signal; a later one exits the process. */
function firstSignal(logger: Logger, shutdown: Shutdown): Promise<ShutdownSignal> {
  return new Promise((resolve) => {
    let firstAt: number | undefined;
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        firstAt ??= performance.now();
        if (performance.now() - firstAt >= SAME_SIGNAL_MS) endNow(logger, 'a second signal');
        logger.info({ signal }, 'shutting down');
        shutdown.hasBegun = true;
        resolve(signal);
      });
    }
  });
}

function endNow(logger: Logger, reason: string): never {
  logger.warn({ reason }, 'exiting before everything was finished');
  process.exit(1);
}

/** Resources to be closed in the reverse order of their opening. */
export class CleanupStack {
  readonly #steps: (() => Promise<void> | void)[] = [];

  /** Registers a resource, where there is one, and returns it. */
  use<T extends { close(): Promise<void> | void } | undefined>(opened: T): T {
    if (opened !== undefined) this.#steps.push(() => opened.close());
    return opened;
  }

  /** Closes all resources, even if some fail; throws the first failure. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
