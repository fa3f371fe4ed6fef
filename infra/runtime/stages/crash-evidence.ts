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
  type InHandRange,
  rangesInHand,
  type SlotName,
  usedMemory,
} from '../../adapters/event-log/suspects/in-hand-table.ts';

/** How often the table is written, ms. A heap takes longer to fill, and longer to be collected in vain. */
const WRITE_EVERY_MS = 100;

const [REPORT, TABLE, NAMES] = ['.report.json', '.in-hand', '.names.json'] as const;

export interface FatalCrash {
  readonly reason: string;
  readonly ranges: readonly InHandRange[];
}

/**
 * What a process leaves in its data folder for the case that it ends as a whole: V8 gives up where a heap overflows
 * within one allocation, and no code of the process runs any more. Node writes a report then, which a kill from outside
 * leaves no trace of; beside it lies the table of what was in hand, at most a tenth of a second old, in the page cache.
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

  /** The crashes of earlier processes of this machine that a full heap of their stages was the reason of; once each. */
  take(): readonly FatalCrash[] {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      const host = this.#base.slice(0, this.#base.lastIndexOf('.') + 1);
      const files = readdirSync(this.#folder).filter((name) => name.startsWith(host));
      const bases = new Set(files.map((name) => host + (name.slice(host.length).split('.')[0] ?? '')));
      const gone = [...bases].filter(
        (base) => base === this.#base || !isAlive(Number(base.slice(host.length))),
      );
      const crashes = gone.flatMap((base) => (files.includes(base + REPORT) ? this.#crashOf(base) : []));
      for (const base of gone) this.#remove(base);
      return crashes;
    } catch (error) {
      this.#logger.warn({ error: messageOf(error) }, 'how earlier processes ended cannot be told');
      return [];
    }
  }

  /** Keeps the evidence of this process up to date until `close`. */
  begin(memory: SharedArrayBuffer, names: ReadonlyMap<number, SlotName>): void {
    try {
      const { report } = process;
      report.directory = this.#folder;
      report.filename = this.#base + REPORT;
      report.excludeEnv = true; // there are keys in it; each thread has to say so, see `worker.ts`
      report.compact = true;
      const table = openSync(join(this.#folder, this.#base + TABLE), 'w', 0o600);
      report.reportOnFatalError = true;
      let written: ReadonlyMap<number, SlotName> = new Map();
      this.#timer = setInterval(() => {
        const list = [...names];
        const isKnown =
          list.length === written.size && list.every(([slot, name]) => written.get(slot) === name);
        if (!isKnown) {
          this.#writeNames(list);
          written = new Map(list);
        }
        writeSync(table, usedMemory(memory, names), 0, undefined, 0);
      }, WRITE_EVERY_MS).unref();
      this.#closeTable = () => closeSync(table);
    } catch (error) {
      this.#logger.warn(
        { error: messageOf(error) },
        'a crash of the whole process will not be told from a kill',
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

  /** One of the thread of the process itself says nothing of what its stages had in hand. */
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
      return [{ reason: `the process ended: ${header.event}`, ranges: rangesInHand(memory, names) }];
    } catch (error) {
      this.#logger.warn({ of: base, error: messageOf(error) }, 'what a crashed process left cannot be read');
      return [];
    }
  }

  #remove(base: string): void {
    for (const kind of [REPORT, TABLE, NAMES]) rmSync(join(this.#folder, base + kind), { force: true });
  }
}

function isAlive(pid: number): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
