/*
 * Identifiers from names of events and fields, which may hold any characters. Only ASCII letters and digits get into an
 * identifier, so no name can end one and begin something else.
 */

/** The words of a name. Characters beyond ASCII are words of their own, by their code point. */
export function wordsOf(name: string): readonly string[] {
  return [...name]
    .map((character) => {
      if (/[A-Za-z0-9]/.test(character)) return character;
      const code = character.codePointAt(0) ?? 0;
      return code < 0x80 || /[\p{Z}\p{C}\p{P}]/u.test(character)
        ? ' '
        : ` U${code.toString(16).toUpperCase()} `;
    })
    .join('')
    .split(' ')
    .filter((word) => word !== '');
}

/** Characters of an identifier at most; longer names are cut, and told apart by a number. */
const MAX_IDENTIFIER = 80;

export function pascalCase(words: readonly string[]): string {
  const joined = words.map((word) => (word[0] ?? '').toUpperCase() + word.slice(1)).join('');
  return joined.slice(0, MAX_IDENTIFIER);
}

export function camelCase(words: readonly string[]): string {
  const pascal = pascalCase(words);
  return (pascal[0] ?? '').toLowerCase() + pascal.slice(1);
}

export function snakeCase(words: readonly string[]): string {
  return words
    .flatMap((word) => word.replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2').split(' '))
    .map((word) => word.toLowerCase())
    .join('_')
    .slice(0, MAX_IDENTIFIER);
}

/** Gives each identifier once: a second one of the same name has a number. */
export class Names {
  readonly #taken: Set<string>;

  constructor(reserved: readonly string[] = []) {
    this.#taken = new Set(reserved);
  }

  take(wanted: string): string {
    let name = wanted;
    for (let number = 2; this.#taken.has(name); number++)
      name = `${wanted}${/\d$/.test(wanted) ? '_' : ''}${number}`;
    this.#taken.add(name);
    return name;
  }
}
