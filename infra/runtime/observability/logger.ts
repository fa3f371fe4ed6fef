import type { Logger } from '@tributary/core';
import { type DestinationStream, pino } from 'pino';
import { oneLineACause } from './incident-log.ts';

/** JSON logs on standard error, so that standard output stays for what commands print; one line a cause and minute. */
export function createLogger(
  level: string,
  bindings: Readonly<Record<string, string>>,
  stream?: DestinationStream,
): Logger {
  const destination = stream ?? pino.destination({ dest: 2, sync: true });
  const logger = pino(
    { level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime, messageKey: 'message' },
    destination,
  );
  return oneLineACause(logger);
}
