import type { DestinationReport } from './destination-calls.ts';

/** Does something with what is reported of destinations, time and again, until there is nothing to report. */
export class ReportRounds {
  readonly #everyMs: number;
  readonly #reports: () => readonly DestinationReport[];
  readonly #round: (reports: readonly DestinationReport[]) => Promise<void>;
  #next: NodeJS.Timeout | undefined;

  /** `round` never rejects. */
  constructor(
    everyMs: number,
    reports: () => readonly DestinationReport[],
    round: (reports: readonly DestinationReport[]) => Promise<void>,
  ) {
    this.#everyMs = everyMs;
    this.#reports = reports;
    this.#round = round;
  }

  /** Nothing where the next round is set or under way. */
  begin(): void {
    this.#next ??= setTimeout(async () => {
      const reports = this.#reports();
      await this.#round(reports);
      this.#next = undefined;
      // Asked anew: a destination that came during the round began nothing.
      if (reports.length > 0 || this.#reports().length > 0) this.begin();
    }, this.#everyMs).unref();
  }
}
