import { readdirSync, readFileSync } from 'node:fs';
import type { BenchEngines } from './installation.ts';

/** `getconf CLK_TCK` of every Linux in use. */
const TICKS_A_SECOND = 100;
const PAGE_BYTES = 4096;

/** Seconds of processor time used by a process with all its threads; 0 where it is not available. */
export function cpuSeconds(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold spaces. Behind it, from field 3 on: 14 is user time, 15 system time.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
  } catch {
    return 0;
  }
}

/** Seconds of processor time used by a process and its children that live. */
export function familySeconds(pid: number): number {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const family = processes.filter((name) => Number(name) === pid || parentOf(name) === pid);
  return family.reduce((sum, name) => sum + cpuSeconds(Number(name)), 0);
}

function parentOf(pid: string): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
  } catch {
    return undefined;
  }
}

/** The processor time of each thread of a process so far, us, by its id. */
export function threadMicroseconds(
  pid: number,
): ReadonlyMap<string, { readonly name: string; readonly us: number }> {
  const folder = `/proc/${pid}/task`;
  return new Map(
    readdirSync(folder).map((id) => {
      const name = readFileSync(`${folder}/${id}/comm`, 'utf8').trim();
      return [
        id,
        { name, us: Number(readFileSync(`${folder}/${id}/schedstat`, 'utf8').split(' ')[0]) / 1_000 },
      ];
    }),
  );
}

/** The processes of Segment's pack that the threads of a process have started. */
export function packPids(pid: number): readonly number[] {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const children = tasks.flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8')
      .split(' ')
      .filter((child) => child !== ''),
  );
  const isPack = (child: string) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('segment/worker');
  return children.filter(isPack).map(Number);
}

/** Processor time per event, where `seconds` were used for all of them. */
export function microsecondsEach(seconds: number, events: number): string {
  return `${((seconds * 1_000_000) / events).toFixed(0)} us`;
}

/** Processor time an event of each process since this was called, e.g. "gateway 62 us, Kafka 7 us". */
export function usageSince(pids: Readonly<Record<string, number>>): (events: number) => string {
  const before = new Map(Object.entries(pids).map(([name, pid]) => [name, cpuSeconds(pid)]));
  return (events) =>
    Object.entries(pids)
      .map(([name, pid]) => `${name} ${microsecondsEach(cpuSeconds(pid) - (before.get(name) ?? 0), events)}`)
      .join(', ');
}

/** Bytes that a process had the system write to disks; 0 where it is not available. */
export function writtenBytes(pid: number): number {
  try {
    return Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Resident memory of a process, MiB. */
export function residentMiB(pid: number): number {
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  return (pages * PAGE_BYTES) / 1024 / 1024;
}

/** The most memory that a process has had resident so far, MiB. */
export function peakResidentMiB(pid: number): number {
  const kibibytes = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kibibytes) / 1024;
}

/** The peak memory of each quarter of a run, MiB. */
export function quarterPeaks(samples: readonly number[]): readonly number[] {
  return [0, 1, 2, 3].map((quarter) => {
    const from = Math.floor((samples.length * quarter) / 4);
    return Math.max(...samples.slice(from, Math.floor((samples.length * (quarter + 1)) / 4)));
  });
}

/** The usage of a process and the engines so far: seconds of processor time, and bytes that the broker has written. */
export interface Used {
  readonly process: number;
  readonly kafka: number;
  readonly redis: number;
  readonly written: number;
}

export function usedBy(pid: number, { kafka, redis }: BenchEngines): Used {
  return {
    process: cpuSeconds(pid),
    kafka: cpuSeconds(kafka.pid),
    redis: cpuSeconds(redis.pid),
    written: writtenBytes(kafka.pid),
  };
}

/** Processor time used between two moments, as a share of one core. */
export function shareOfACore(
  before: Used,
  after: Used,
  of: Exclude<keyof Used, 'written'>,
  seconds: number,
): string {
  return `${((100 * (after[of] - before[of])) / seconds).toFixed(1)} %`;
}
