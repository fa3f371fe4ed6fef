/** Structured logging. Never log a key, a token, a trait or a property. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const NO_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} };
