import { type Logger, messageOf } from '@tributary/core';
import { Closing } from '../wiring/closing.ts';

/** Signals closer to each other than this are one: npm passes on the Ctrl-C that the terminal sent to both. */
const SAME_SIGNAL_MS = 1_000;

type LeaveSignal = 'SIGTERM' | 'SIGINT';

export interface LeaveOptions {
  readonly logger: Logger;
  /** How long what was opened may take to close, ms. */
  readonly graceMs: number;
}

/** How a process leaves; its work reads and completes it. */
export interface Leaving {
  /** True from the first signal on: the process reports that it is not ready. */
  isLeaving: boolean;
  /** Runs at SIGTERM before anything is closed, e.g. to serve until load balancers have noticed. Set once the process is ready. */
  drain?: () => Promise<void>;
}

/**
 * Runs a process until SIGTERM or SIGINT, or until its work fails. At SIGTERM it drains first. Then what `work` opened is
 * closed, last opened first: each takes no more, finishes what it took and leaves. A second signal, or the end of the
 * grace, ends it at once with code 1. Resolves to the exit code; rejects with what failed.
 */
export async function runUntilTold(
  { logger, graceMs }: LeaveOptions,
  work: (closing: Closing, leaving: Leaving) => Promise<never>,
): Promise<number> {
  const closing = new Closing();
  const leaving: Leaving = { isLeaving: false };
  const told = toldToLeave(logger, leaving);
  let failure: { readonly error: unknown } | undefined;
  try {
    const working = work(closing, leaving);
    const signal = await Promise.race([told, working]);
    // SIGINT is a person at a terminal, with no load balancer in front.
    if (signal === 'SIGTERM' && leaving.drain !== undefined) await Promise.race([leaving.drain(), working]);
  } catch (error) {
    logger.error({ error: messageOf(error) }, 'leaving, as this failed');
    failure = { error };
  }
  leaving.isLeaving = true;
  const forced = setTimeout(() => endNow(logger, 'the grace is over'), graceMs);
  try {
    await closing.close();
  } catch (error) {
    failure ??= { error };
  }
  clearTimeout(forced);
  if (failure !== undefined) throw failure.error;
  return 0;
}

/** Resolves at the first SIGTERM or SIGINT; a later one ends the process. */
function toldToLeave(logger: Logger, leaving: Leaving): Promise<LeaveSignal> {
  return new Promise((resolve) => {
    let toldAt: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        toldAt ??= performance.now();
        if (performance.now() - toldAt >= SAME_SIGNAL_MS) endNow(logger, 'told again');
        logger.info({ signal }, 'leaving');
        leaving.isLeaving = true;
        resolve(signal);
      });
    }
  });
}

function endNow(logger: Logger, why: string): never {
  logger.warn({ why }, 'ending before everything was finished');
  process.exit(1);
}
