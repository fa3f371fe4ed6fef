import { SANDBOX_LOG_LEVELS } from '@tributary/core';
import type { Entry, Frame, LoadFault, LogLine, Report } from './protocol.ts';

/**
 * Parses a worker's report. The worker has run hostile code, so this throws unless the report has the expected shape and
 * its lengths match the body.
 */
export function parseReport({ head, body }: Frame): Report {
  const report: unknown = JSON.parse(head);
  if (!isReport(report)) throw new TypeError('a report of another shape');
  let used = 0;
  for (const [kind, , payload] of report.entries) if (kind === 0) for (const size of payload) used += size;
  if (used !== body.length) throw new RangeError('a report whose lengths do not fit');
  return report;
}

const STOPS: readonly unknown[] = ['ended', 'timeout', 'hung', 'memory', 'missing', 'unloadable'];

function isReport(value: unknown): value is Report {
  const report = value as Partial<Record<keyof Report, unknown>> | null;
  return (
    typeof report === 'object' &&
    report !== null &&
    STOPS.includes(report.stop) &&
    typeof report.wallMs === 'number' &&
    typeof report.cpuMs === 'number' &&
    typeof report.loadMs === 'number' &&
    (report.stop !== 'unloadable' || isFault(report.fault)) &&
    Array.isArray(report.entries) &&
    report.entries.every(isEntry)
  );
}

function isFault(value: unknown): value is LoadFault {
  const fault = value as Partial<Record<keyof LoadFault, unknown>> | undefined;
  return (
    typeof fault?.message === 'string' &&
    (fault.line === undefined || isLineOrColumn(fault.line)) &&
    (fault.column === undefined || isLineOrColumn(fault.column)) &&
    (fault.kind === 'compile' || fault.kind === 'timeout' || fault.kind === 'memory')
  );
}

function isEntry(value: unknown): value is Entry {
  if (!Array.isArray(value)) return false;
  const [kind, ms, payload, logs]: unknown[] = value;
  if (typeof ms !== 'number') return false;
  if (logs !== undefined && !(Array.isArray(logs) && logs.every(isLogLine))) return false;
  if (!Array.isArray(payload)) return false;
  if (kind === 0) return payload.every((size) => Number.isInteger(size) && size > 0);
  const [message, line, column]: unknown[] = payload;
  return (
    (kind === 'threw' || kind === 'output') &&
    typeof message === 'string' &&
    isLineOrColumn(line) &&
    isLineOrColumn(column)
  );
}

function isLogLine(value: unknown): value is LogLine {
  if (!Array.isArray(value)) return false;
  const [level, text]: unknown[] = value;
  return SANDBOX_LOG_LEVELS.some((known) => known === level) && typeof text === 'string';
}

function isLineOrColumn(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0;
}
