import { type Logger, messageOf } from '@tributary/core';
import { Closing } from '../wiring/closing.ts';

/** Signals closer to each other than this are one: npm passes on the Ctrl-C that the terminal sent to both. */
const SAME_SIGNAL_MS = 1_000;

export interface Leaving {
  readonly logger: Logger;
  /** How long what was opened may take to close, ms. */
  readonly graceMs: number;
}

/**
 * Runs a process until SIGTERM or SIGINT, or until its work fails. Then what `work` opened is closed, last opened
 * first: each takes no more, finishes what it took and leaves. A second signal, or the end of the grace, ends it at
 * once with code 1. Resolves to the exit code; rejects with what failed.
 */
export async function runUntilTold(
  { logger, graceMs }: Leaving,
  work: (closing: Closing) => Promise<never>,
): Promise<number> {
  const closing = new Closing();
  const told = toldToLeave(logger);
  let failure: { readonly error: unknown } | undefined;
  try {
    await Promise.race([told, work(closing)]);
  } catch (error) {
    logger.error({ error: messageOf(error) }, 'leaving, as this failed');
    failure = { error };
  }
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
function toldToLeave(logger: Logger): Promise<void> {
  return new Promise((resolve) => {
    let toldAt: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        toldAt ??= performance.now();
        if (performance.now() - toldAt >= SAME_SIGNAL_MS) endNow(logger, 'told again');
        logger.info({ signal }, 'leaving');
        resolve();
      });
    }
  });
}

function endNow(logger: Logger, why: string): never {
  logger.warn({ why }, 'ending before everything was finished');
  process.exit(1);
}
