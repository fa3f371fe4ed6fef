import type { Logger } from '@tributary/core';
import { type DestinationStream, pino } from 'pino';

/** JSON logs on standard error, so that standard output stays for what commands print. */
export function createLogger(
  level: string,
  bindings: Readonly<Record<string, string>>,
  stream?: DestinationStream,
): Logger {
  const destination = stream ?? pino.destination({ dest: 2, sync: true });
  return pino(
    { level, base: bindings, timestamp: pino.stdTimeFunctions.isoTime, messageKey: 'message' },
    destination,
  );
}
