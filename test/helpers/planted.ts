import { randomBytes } from 'node:crypto';

/** Secrets of a test, each a unique text, to be searched for where they must not appear. */
export class Planted {
  readonly #texts = new Map<string, string>();

  /** Creates a secret and records its kind. */
  make(what: string): string {
    return this.keep(what, `planted-${randomBytes(9).toString('hex')}`);
  }

  /** Records a secret created elsewhere, in whole and without the part before its last `_`, `.` or `:`. */
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
