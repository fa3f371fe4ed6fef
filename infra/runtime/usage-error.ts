import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { messageOf } from '@tributary/core';

/** The words of a command line are off. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

/** For commands that take everything from the environment. */
export function noArguments(args: readonly string[]): void {
  if (args.length > 0) throw new UsageError(`takes no arguments, not "${args.join(' ')}"`);
}

/** The options of a command line. `UsageError` for anything else on it. */
export function parseOptions<const T extends ParseArgsOptionsConfig>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}
