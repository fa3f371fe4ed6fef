import { Closed } from '../failures.ts';

/** Text of one group at most, so that a long queue is written piece by piece. In UTF-16 units. */
const MAX_GROUP_LENGTH = 8 * 1_024 * 1_024;

interface Append {
  readonly text: string;
  readonly settle: (error?: unknown) => void;
}

/**
 * Appends texts to one folder, one group at a time: what was asked for while a group was being written goes as the
 * next one, so that many callers share an fsync. Nothing is written twice at once, and texts stay in order.
 */
export class FolderWriter {
  readonly #write: (text: string) => Promise<void>;
  #queue: Append[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  /** `write` resolves once its text is durable; it is never called again before it settled. */
  constructor(write: (text: string) => Promise<void>) {
    this.#write = write;
  }

  /**
   * Resolves once the text is durable. Rejects with what `write` threw (part of it may have been written), with
   * `Closed`, or with the reason of `signal`: then it is written only if its group had begun.
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

  /** Takes nothing more and resolves when what was taken is settled. */
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
