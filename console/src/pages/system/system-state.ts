import type { Schemas } from '../../api/client.ts';
import { countText, durationText } from './amounts.ts';

export type System = Schemas['System'];
export type Stage = Schemas['StageStatus'];
export type Process = Schemas['Process'];
export type Partition = Schemas['StagePartition'];

export interface Problem {
  readonly severity: 'error' | 'warning';
  readonly title: string;
  readonly text: string;
}

/** A stage is behind if its oldest record is older than this, s. */
const BEHIND_AFTER_S = 60;
/** A busy stage always has some records before it, s. */
const BUSY_AFTER_S = 5;

/** Retries and rate-limited replays stay in these topics until they are due. */
const WAITS_ON_PURPOSE = /^(deliveries\.retry\..+|mail\.retry|replays)$/;

export function waitsOnPurpose(topic: string): boolean {
  return WAITS_ON_PURPOSE.test(topic);
}

export function isBehind({ lag_records, lag_seconds }: Stage): boolean {
  return lag_records > 0 && (lag_seconds ?? 0) > BEHIND_AFTER_S;
}

/** Whether the lag of a stage is known not to shrink. */
export function doesNotShrink(stage: Stage): boolean {
  const { lag_records, seconds_to_empty, drain_per_second } = stage;
  return lag_records > 0 && seconds_to_empty === null && drain_per_second !== null;
}

/** The problems that need an operator, the worst first. */
export function problemsOf(system: System): readonly Problem[] {
  const { engines, processes, stages, versions } = system;
  const errors: Problem[] = [
    ...engines
      .filter(({ state }) => state !== 'answers')
      .map(
        ({ engine, state }): Problem => ({
          severity: 'error',
          title: `${engine}: ${state}`,
          text: seenBy(engine, system),
        }),
      ),
    ...processes
      .filter(({ state }) => state === 'not ready')
      .map(
        (process): Problem => ({
          severity: 'error',
          title: `${nameOf(process)} is not ready`,
          text: checksOf(process),
        }),
      ),
    ...stages.flatMap((stage): Problem[] => {
      const left = orphansOf(stage, processes);
      if (left.length === 0) return [];
      const title = `${stage.stage}: no process reads ${counted(left.length, 'partition')} with records`;
      return [{ severity: 'error', title, text: 'Start a process that runs this stage.' }];
    }),
  ];
  const silent = processes.filter(({ state }) => state === 'silent');
  const warnings: Problem[] = stages.filter(isBehind).map((stage) => ({
    severity: 'warning',
    title: `${stage.stage} is behind by ${durationText(stage.lag_seconds ?? 0)}`,
    text: adviceFor(stage),
  }));
  if (silent.length > 0)
    warnings.push({
      severity: 'warning',
      title: `${counted(silent.length, 'process', 'processes')} without a report`,
      text: `${silent.map(nameOf).join(', ')}: cut off, or ended without a report. A restarted process is listed as a new one.`,
    });
  if (versions.length > 1)
    warnings.push({
      severity: 'warning',
      title: 'Processes of several releases run together',
      text: `${versions.map(releaseOf).join(', ')}. Fine during a rolling update; finish it.`,
    });
  return [...errors, ...warnings];
}

/** The installation in a sentence where there is no problem; `isCalm`: it is all ready, and no lag grows. */
export function calmText({ engines, processes, stages }: System): {
  readonly isCalm: boolean;
  readonly text: string;
} {
  const ready = processes.filter(({ state }) => state === 'ready').length;
  const growing = stages
    .filter((stage) => doesNotShrink(stage) && (stage.lag_seconds ?? 0) > BUSY_AFTER_S)
    .map(({ stage }) => stage);
  const isCalm = processes.length > 0 && ready === processes.length && growing.length === 0;
  const answering = engines.filter(({ state }) => state === 'answers').length;
  const lag =
    growing.length > 0
      ? `more records arrive than are processed in ${growing.join(', ')}`
      : `no stage is behind by more than ${durationText(BEHIND_AFTER_S)}`;
  return {
    isCalm,
    text: `${ready} of ${counted(processes.length, 'process', 'processes')} ready, ${answering} of ${counted(engines.length, 'engine')} answer; ${lag}.`,
  };
}

function seenBy(engine: string, { engines }: System): string {
  const seen = engines.find((one) => one.engine === engine)?.processes ?? [];
  const troubled = seen.filter(({ state }) => state !== 'answers').length;
  return `Seen by ${troubled} of ${counted(seen.length, 'process', 'processes')}.`;
}

function adviceFor(stage: Stage): string {
  const { lag_records, seconds_to_empty, members, wanted_processes } = stage;
  const left = `${countText(lag_records)} records are left`;
  if (doesNotShrink(stage)) {
    const more =
      members !== null && wanted_processes !== null && wanted_processes > members
        ? ` It needs ${wanted_processes} processes to keep up, and has ${members}.`
        : '';
    return `${left}, and more arrive than are processed.${more}`;
  }
  return seconds_to_empty === null ? `${left}.` : `${left}; done in ${durationText(seconds_to_empty)}.`;
}

/** Partitions with records that no process reads. Empty if no process reports its partitions. */
function orphansOf({ topics }: Stage, processes: readonly Process[]): readonly Partition[] {
  if (!processes.some(({ stages }) => stages.length > 0)) return [];
  return topics
    .filter(({ topic }) => !waitsOnPurpose(topic))
    .flatMap(({ partitions }) => partitions.filter(({ lag, process }) => lag > 0 && process === null));
}

function checksOf({ checks }: Process): string {
  return Object.entries(checks)
    .map(([part, state]) => `${part}: ${state}`)
    .join(', ');
}

/** The name of a process for people: `processor host-3:17`. */
export function nameOf({ role, host, pid }: Pick<Process, 'role' | 'host' | 'pid'>): string {
  return `${role} ${host}:${pid}`;
}

function releaseOf({ version, commit, processes }: System['versions'][number]): string {
  const name = commit === null ? version : `${version} (${commit})`;
  return `${name} in ${counted(processes, 'process', 'processes')}`;
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/** Stages with the text in their name or a topic; with `show` only those that are behind or whose lag does not shrink. */
export function stagesMatching(
  stages: readonly Stage[],
  { q = '', show }: { readonly q?: string; readonly show?: string },
): readonly Stage[] {
  const wanted = q.trim().toLowerCase();
  return stages.filter(
    (stage) =>
      (show === undefined || isBehind(stage) || doesNotShrink(stage)) &&
      [stage.stage, ...stage.topics.map(({ topic }) => topic)].some((name) =>
        name.toLowerCase().includes(wanted),
      ),
  );
}

export function processesMatching(processes: readonly Process[], q = ''): readonly Process[] {
  const wanted = q.trim().toLowerCase();
  return processes.filter((process) =>
    [
      nameOf(process),
      process.process,
      process.version,
      process.state,
      ...process.stages.map(({ stage }) => stage),
    ].some((text) => text.toLowerCase().includes(wanted)),
  );
}

/** The partitions of a topic that one process owns. */
export interface Ownership {
  /** Absent for partitions that no process reports. */
  readonly process: Process | undefined;
  readonly partitions: readonly number[];
  readonly lag: number;
}

/** The partitions of a topic by the process that owns them, those without an owner first. */
export function ownershipOf(
  partitions: readonly Partition[],
  processes: readonly Process[],
): readonly Ownership[] {
  const byId = new Map(processes.map((process) => [process.process, process]));
  const groups = Map.groupBy(partitions, ({ process }) => (process === null ? undefined : byId.get(process)));
  return [...groups]
    .map(([process, of]) => ({
      process,
      partitions: of.map(({ partition }) => partition),
      lag: of.reduce((sum, { lag }) => sum + lag, 0),
    }))
    .sort((a, b) => Number(a.process !== undefined) - Number(b.process !== undefined) || b.lag - a.lag);
}

/** `0-3, 7`. */
export function rangesText(numbers: readonly number[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const current = ranges.at(-1);
    if (current !== undefined && number <= current.last + 1) current.last = number;
    else ranges.push({ first: number, last: number });
  }
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
}

/** The partitions with the most records first, then by number. */
export function byLag(partitions: readonly Partition[]): readonly Partition[] {
  return partitions.toSorted((a, b) => b.lag - a.lag || a.partition - b.partition);
}
