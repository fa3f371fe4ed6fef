import { Closed } from '../failures.ts';

/** UTF-16 units of one group at most; a longer queue is written in several groups. */
const MAX_GROUP_LENGTH = 8 * 1_024 * 1_024;

interface Append {
  readonly text: string;
  readonly settle: (error?: unknown) => void;
}

/**
 * Group commit for one folder: texts that are appended while a group is written form the next group, so that many callers
 * share an fsync. Writes never overlap, and texts stay in order.
 */
export class FolderWriter {
  readonly #write: (text: string) => Promise<void>;
  #queue: Append[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  /** `write` resolves once its text is durable; it is never called before the last call has settled. */
  constructor(write: (text: string) => Promise<void>) {
    this.#write = write;
  }

  /**
   * Resolves once the text is durable. Rejects with the error of `write` (part of the text may have been written), with
   * `Closed`, or with the reason of `signal`: then the text is written only if its group had begun.
   */
  append(text: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new Closed('closed'));
      const append: Append = { text, settle: (error) => (error === undefined ? resolve() : reject(error)) };
      const leave = () => {
        this.#queue = this.#queue.filter((queued) => queued !== append);
        reject(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.push(append);
      this.#writing ??= this.#writeAll();
    });
  }

  /** Refuses further appends and resolves when all pending ones are settled. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#takeGroup();
      try {
        await this.#write(group.map(({ text }) => text).join(''));
        for (const { settle } of group) settle();
      } catch (error) {
        for (const { settle } of group) settle(error);
      }
    }
    this.#writing = undefined;
  }

  #takeGroup(): readonly Append[] {
    let length = 0;
    const beyond = this.#queue.findIndex(({ text }, index) => {
      length += text.length;
      return index > 0 && length > MAX_GROUP_LENGTH;
    });
    return this.#queue.splice(0, beyond === -1 ? this.#queue.length : beyond);
  }
}
