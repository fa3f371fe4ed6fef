import type { CounterName, GaugeName, HistogramName, LabelsOf } from './metric-catalogue.ts';

export type Labels = Readonly<Record<string, string>>;

/**
 * Where code reports metrics. Implementations register a metric at first use; calls never throw and never wait.
 * Labels must be bounded sets (stage, topic, outcome); never an id a producer chooses.
 */
export interface Metrics {
  /** Adds to a counter. */
  count<Name extends CounterName>(name: Name, labels?: LabelsOf<Name>, by?: number): void;
  /** Sets a gauge. */
  gauge(name: GaugeName, value: number, labels?: Labels): void;
  /** Removes a gauge whose subject does not exist any more. */
  ungauge(name: GaugeName, labels: Labels): void;
  /** Observes a duration in seconds. */
  observe<Name extends HistogramName>(name: Name, seconds: number, labels?: LabelsOf<Name>): void;
}

export const NO_METRICS: Metrics = { count() {}, gauge() {}, ungauge() {}, observe() {} };
