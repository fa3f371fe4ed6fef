import { hasFormat } from '../formats.ts';

/** Formats that are looked for, the one that says most first. */
const LOOKED_FOR = ['uuid', 'date-time', 'date', 'email', 'ipv4', 'ipv6', 'url'] as const;

/** Different texts remembered at most, and characters of one that is: what differs more is no small closed set. */
export const MAX_DISTINCT = 50;
const MAX_REMEMBERED_LENGTH = 100;

/** What was seen of the texts that stood at one place of events. */
export class TextProfile {
  seen = 0;
  #formats: readonly string[] = LOOKED_FOR;
  /** Undefined once there were too many, or one was too long. */
  #distinct: Set<string> | undefined = new Set();

  add(text: string): void {
    this.seen++;
    if (this.#formats.length > 0) this.#formats = this.#formats.filter((name) => hasFormat(name, text));
    this.#distinct?.add(text.length > MAX_REMEMBERED_LENGTH ? '' : text);
    if (text.length > MAX_REMEMBERED_LENGTH || (this.#distinct?.size ?? 0) > MAX_DISTINCT)
      this.#distinct = undefined;
  }

  /** The format that every text had. */
  get format(): string | undefined {
    return this.#formats[0];
  }

  /** All the texts there were, sorted; undefined where they are too many or too long to be a closed set. */
  get distinct(): readonly string[] | undefined {
    return this.#distinct && [...this.#distinct].sort();
  }
}
