import type { Labels, Logger, Metrics } from '@tributary/core';

/** Records logged lines and counted metrics. */
export class Told {
  /** Each line as `<level> <message> <fields as JSON>`. */
  readonly lines: string[] = [];
  /** Sums by `<name>{<label>=<value>,...}`. */
  readonly counts: Record<string, number> = {};

  readonly logger: Logger = {
    debug: (fields, message) => this.#line('debug', fields, message),
    info: (fields, message) => this.#line('info', fields, message),
    warn: (fields, message) => this.#line('warn', fields, message),
    error: (fields, message) => this.#line('error', fields, message),
  };

  readonly metrics: Metrics = {
    count: (name, labels: Labels = {}, by = 1) => {
      const told = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
      const key = told.length === 0 ? name : `${name}{${told.join(',')}}`;
      this.counts[key] = (this.counts[key] ?? 0) + by;
    },
    gauge() {},
    removeGauge() {},
    observe() {},
  };

  #line(level: string, fields: object, message: string): void {
    this.lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  }
}
