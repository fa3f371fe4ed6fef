import { type Logger, messageOf } from '@tributary/core';
import { CleanupStack } from './cleanup-stack.ts';

/** Signals closer to each other than this are one: npm passes on the Ctrl-C that the terminal sent to both. */
const SAME_SIGNAL_MS = 1_000;

type ShutdownSignal = 'SIGTERM' | 'SIGINT';

export interface ShutdownOptions {
  readonly logger: Logger;
  /** How long what was opened may take to close, ms. */
  readonly graceMs: number;
}

/** How a process shuts down; its work reads and completes it. */
export interface Shutdown {
  /** True from the first signal on: the process reports that it is not ready. */
  hasBegun: boolean;
  /** Runs at SIGTERM before anything is closed, to serve until load balancers have noticed. Set once the process is ready. */
  drain?: () => Promise<void>;
}

/**
 * Runs a process until SIGTERM or SIGINT, or until its work fails. At SIGTERM it drains first. Then what `work` opened is
 * closed, last opened first: each takes no more, finishes what it took and leaves. A second signal, or the end of the
 * grace, ends the process at once with code 1. Resolves to the exit code; rejects with the failure.
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
    // SIGINT is a person at a terminal, with no load balancer in front.
    if (signal === 'SIGTERM' && shutdown.drain !== undefined) await Promise.race([shutdown.drain(), working]);
  } catch (error) {
    logger.error({ error: messageOf(error) }, 'shutting down, as this failed');
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

/** Resolves at the first SIGTERM or SIGINT; a later one ends the process. */
function firstSignal(logger: Logger, shutdown: Shutdown): Promise<ShutdownSignal> {
  return new Promise((resolve) => {
    let firstAt: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
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
  logger.warn({ reason }, 'ending before everything was finished');
  process.exit(1);
}
