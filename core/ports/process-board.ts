import type { StageLoad, StageSample } from '../log/stage-load.ts';

/** The partitions of one topic that a stage has in a process. */
export interface OwnedPartitions {
  readonly topic: string;
  /** In order. */
  readonly partitions: readonly number[];
}

/** A stage that a process runs, with what it owns now. */
export interface ProcessStage {
  readonly stage: string;
  readonly topics: readonly OwnedPartitions[];
}

/** An engine as one process sees it. */
export interface EngineReport {
  readonly engine: string;
  /** `answers`, or what is wrong. */
  readonly state: string;
  /** As the engine names it; null where it does not, or was not asked. */
  readonly version: string | null;
}

/** The report of a process about itself, for operators. Times are epoch ms of that process. */
export interface ProcessReport {
  /** A new id at each start. */
  readonly process: string;
  readonly role: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly commit: string | null;
  readonly node: string;
  readonly started_at: number;
  readonly at: number;
  readonly ready: boolean;
  /** The state of each part, as `/readyz` of the admin port shows it. */
  readonly checks: Readonly<Record<string, string>>;
  readonly memory_bytes: number;
  readonly engines: readonly EngineReport[];
  readonly stages: readonly ProcessStage[];
}

/** How often a process reports, ms. */
export const PROCESS_REPORT_EVERY_MS = 5_000;
/** A process without a report for this long is shown as silent, ms. */
export const PROCESS_SILENT_AFTER_MS = 6 * PROCESS_REPORT_EVERY_MS;
/** Lifetime of a report, ms: so long is a process shown that ended without withdrawing it. */
export const PROCESS_REPORT_TTL_MS = 15 * 60_000;

/**
 * The processes of an installation, as each reports itself.
 *
 * - Once `report` has resolved, every process of the installation that shares the board reads the report. Only the newest
 *   report of a process is kept.
 * - A report is forgotten `PROCESS_REPORT_TTL_MS` after it was made, or once it is withdrawn. It may be lost earlier with
 *   the engine: nothing but the view of operators depends on it.
 * - `Unavailable` when the engine does not answer. An adapter must not block its caller for long.
 */
export interface ProcessBoard {
  report(report: ProcessReport): Promise<void>;
  /** Removes the report of a process that ends in order. Idempotent. */
  withdraw(process: string): Promise<void>;
  /** In no order. */
  read(): Promise<readonly ProcessReport[]>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** A stage over all processes, as the log has it. */
export interface StageStatus {
  readonly stage: string;
  readonly sample: StageSample;
  readonly load: StageLoad;
}

/** The state of an installation, for operators. Times are epoch ms. */
export interface SystemSnapshot {
  readonly at: number;
  readonly stages: readonly StageStatus[];
  readonly processes: readonly ProcessReport[];
}

/** `Unavailable` when the log or the board does not answer. */
export interface SystemView {
  read(): Promise<SystemSnapshot>;
}
