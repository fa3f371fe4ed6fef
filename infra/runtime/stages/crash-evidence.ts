import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Logger, messageOf } from '@tributary/core';
import {
  type InFlightRange,
  rangesInFlight,
  type SlotName,
  usedMemory,
} from '../../adapters/event-log/stage-runner/suspects.ts';
import { isAlive } from '../process/server-address.ts';

/** How often the table is written, ms. A heap takes longer to overflow. */
const WRITE_EVERY_MS = 100;

// `.in-hand` is the stored name of the table of entries in flight.
const [REPORT, TABLE, NAMES] = ['.report.json', '.in-hand', '.names.json'] as const;

export interface FatalCrash {
  readonly reason: string;
  readonly ranges: readonly InFlightRange[];
}

/**
 * Files in the data folder that survive the end of the whole process: if one allocation overflows a heap, V8 aborts, and
 * no code of the process runs any more. Node then writes a report, which distinguishes this from a kill from outside. Beside
 * it is the table of the entries in flight, at most 100 ms old, which the operating system keeps in its page cache.
 */
export class CrashEvidence {
  readonly #folder: string;
  readonly #base: string;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #closeTable: () => void = () => {};

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
      for (const base of ended) this.#remove(base);
      return crashes;
    } catch (error) {
      this.#logger.warn({ error: messageOf(error) }, 'crashes of earlier processes cannot be read');
      return [];
    }
  }

  /** Keeps the files of this process up to date until `close`. */
  begin(memory: SharedArrayBuffer, names: ReadonlyMap<number, SlotName>): void {
    try {
      const { report } = process;
      report.directory = this.#folder;
      report.filename = this.#base + REPORT;
      report.excludeEnv = true; // it contains keys; also set in each thread, see `worker.ts`
      report.compact = true;
      const table = openSync(join(this.#folder, this.#base + TABLE), 'w', 0o600);
      report.reportOnFatalError = true;
      let written: ReadonlyMap<number, SlotName> = new Map();
      const write = () => {
        const list = [...names];
        const isKnown =
          list.length === written.size && list.every(([slot, name]) => written.get(slot) === name);
        if (!isKnown) {
          this.#writeNames(list);
          written = new Map(list);
        }
        writeSync(table, usedMemory(memory, names), 0, undefined, 0);
      };
      this.#timer = setInterval(() => {
        try {
          write();
        } catch (error) {
          // A full disk, e.g., must not end the process; the next write is tried all the same.
          this.#logger.warn({ error: messageOf(error) }, 'the entries in flight cannot be recorded');
        }
      }, WRITE_EVERY_MS).unref();
      this.#closeTable = () => closeSync(table);
    } catch (error) {
      this.#logger.warn(
        { error: messageOf(error) },
        'the records in flight cannot be recorded: a crash of this process will be taken for a kill',
      );
    }
  }

  close(): void {
    process.report.reportOnFatalError = false;
    clearInterval(this.#timer);
    this.#closeTable();
    this.#closeTable = () => {};
    this.#remove(this.#base);
  }

  #writeNames(names: readonly (readonly [number, SlotName])[]): void {
    writeFileSync(join(this.#folder, this.#base + NAMES), JSON.stringify(names), { mode: 0o600 });
  }

  /** A crash of the main thread is ignored: it is not the fault of entries in flight. */
  #crashOf(base: string): readonly FatalCrash[] {
    try {
      const read = (kind: string) => readFileSync(join(this.#folder, base + kind));
      const { header } = JSON.parse(read(REPORT).toString()) as {
        readonly header: { readonly threadId: number; readonly event: string };
      };
      if (header.threadId === 0) return [];
      const bytes = read(TABLE);
      const memory = new SharedArrayBuffer(Math.floor(bytes.length / 8) * 8);
      new Uint8Array(memory).set(bytes.subarray(0, memory.byteLength));
      const names = new Map(JSON.parse(read(NAMES).toString()) as [number, SlotName][]);
      return [{ reason: `the process ended: ${header.event}`, ranges: rangesInFlight(memory, names) }];
    } catch (error) {
      this.#logger.warn(
        { of: base, error: messageOf(error) },
        'the files of a crashed process cannot be read',
      );
      return [];
    }
  }

  #remove(base: string): void {
    for (const kind of [REPORT, TABLE, NAMES]) rmSync(join(this.#folder, base + kind), { force: true });
  }
}
