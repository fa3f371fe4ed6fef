import { randomBytes } from 'node:crypto';

/** Secrets of a test, each unlike any other text, to be looked for wherever they must not be. */
export class Planted {
  readonly #texts = new Map<string, string>();

  /** Makes one and remembers what it is. */
  make(what: string): string {
    return this.keep(what, `planted-${randomBytes(9).toString('hex')}`);
  }

  /** Remembers a secret that was made elsewhere, in whole and without what stands before its last `_`, `.` or `:`. */
  keep(what: string, text: string): string {
    this.#texts.set(what, text);
    const core = text.split(/[_.: ]/).at(-1) ?? '';
    if (core.length >= 20) this.#texts.set(`${what}, its last part`, core);
    return text;
  }

  /** The planted texts found in a text; empty where there are none. */
  in(text: string): readonly string[] {
    return [...this.#texts].filter(([, secret]) => text.includes(secret)).map(([what]) => what);
  }
}
