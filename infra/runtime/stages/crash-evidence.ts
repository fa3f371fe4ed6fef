import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Logger, messageOf } from '@tributary/core';
import type { InFlightMemory, InFlightRange } from '../../adapters/event-log/stage-runner/suspects.ts';
import { isAlive } from '../process/server-address.ts';

/** How often the entries in flight are written, ms. A heap takes longer to overflow. */
const WRITE_EVERY_MS = 100;

const [REPORT, IN_FLIGHT] = ['.report.json', '.in-flight.json'] as const;

export interface FatalCrash {
  readonly reason: string;
  readonly ranges: readonly InFlightRange[];
}

/**
 * Files in the data folder that survive the end of the whole process: if one allocation overflows a heap, V8 aborts, and
 * no code of the process runs any more. Node then writes a report, which distinguishes this from a kill from outside. Beside
 * it are the entries in flight, at most 100 ms old, which the operating system keeps in its page cache.
 */
export class CrashEvidence {
  readonly #folder: string;
  readonly #base: string;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;

  constructor(dataFolder: string, logger: Logger) {
    this.#folder = join(dataFolder, 'crashes');
    this.#base = `${hostname().replace(/[^\w-]/g, '_')}.${process.pid}`;
    this.#logger = logger;
  }

  /** Crashes of earlier processes of this machine by a full heap of their stages. Each is returned once. */
  take(): readonly FatalCrash[] {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      const host = this.#base.slice(0, this.#base.lastIndexOf('.') + 1);
      const files = readdirSync(this.#folder).filter((name) => name.startsWith(host));
      const bases = new Set(files.map((name) => host + (name.slice(host.length).split('.')[0] ?? '')));
      const ended = [...bases].filter(
        (base) => base === this.#base || !isAlive(Number(base.slice(host.length))),
      );
      const crashes = ended.flatMap((base) => (files.includes(base + REPORT) ? this.#crashOf(base) : []));
      // Also files of earlier releases.
      for (const file of files)
        if (ended.some((base) => file.startsWith(`${base}.`)))
          rmSync(join(this.#folder, file), { force: true });
      return crashes;
    } catch (error) {
      this.#logger.warn({ error: messageOf(error) }, 'crashes of earlier processes cannot be read');
      return [];
    }
  }

  /** Keeps the files of this process up to date until `close`. */
  begin(inFlight: Pick<InFlightMemory, 'ranges'>): void {
    const { report } = process;
    report.directory = this.#folder;
    report.filename = this.#base + REPORT;
    report.excludeEnv = true; // it contains keys; also set in each thread, see `worker.ts`
    report.compact = true;
    report.reportOnFatalError = true;
    const file = join(this.#folder, this.#base + IN_FLIGHT);
    let written = '';
    let isDown = false;
    this.#timer = setInterval(() => {
      try {
        const text = JSON.stringify(inFlight.ranges());
        if (text === written) return;
        writeFileSync(`${file}.next`, text, { mode: 0o600 });
        renameSync(`${file}.next`, file);
        written = text;
        isDown = false;
      } catch (error) {
        // A full disk, e.g., must not end the process; the next write is tried all the same.
        if (!isDown)
          this.#logger.warn({ error: messageOf(error) }, 'the entries in flight cannot be recorded');
        isDown = true;
      }
    }, WRITE_EVERY_MS).unref();
  }

  close(): void {
    process.report.reportOnFatalError = false;
    clearInterval(this.#timer);
    for (const kind of [REPORT, IN_FLIGHT, `${IN_FLIGHT}.next`])
      rmSync(join(this.#folder, this.#base + kind), { force: true });
  }

  /** A crash of the main thread is ignored: it is not the fault of entries in flight. */
  #crashOf(base: string): readonly FatalCrash[] {
    try {
      const read = (kind: string) => readFileSync(join(this.#folder, base + kind), 'utf8');
      const { header } = JSON.parse(read(REPORT)) as {
        readonly header: { readonly threadId: number; readonly event: string };
      };
      if (header.threadId === 0) return [];
      const ranges = JSON.parse(read(IN_FLIGHT)) as readonly InFlightRange[];
      return [{ reason: `the process ended: ${header.event}`, ranges }];
    } catch (error) {
      this.#logger.warn(
        { of: base, error: messageOf(error) },
        'the files of a crashed process cannot be read',
      );
      return [];
    }
  }
}
