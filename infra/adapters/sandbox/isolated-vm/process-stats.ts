import { readFileSync } from 'node:fs';

/** Linux counts CPU time for user space in hundredths of a second on every architecture Node runs on. */
const MS_PER_TICK = 10;

/** Resident memory of a process, MB; undefined when it is gone or the system does not tell. */
export function residentMb(pid: number): number | undefined {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readProc(pid, 'status') ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
}

/** CPU time a process has used, ms; undefined when it is gone or the system does not tell. */
export function cpuMs(pid: number): number | undefined {
  const stat = readProc(pid, 'stat');
  // The second field is a name in parentheses and may hold anything.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system] = [fields?.[11], fields?.[12]];
  return user === undefined || system === undefined
    ? undefined
    : (Number(user) + Number(system)) * MS_PER_TICK;
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}
