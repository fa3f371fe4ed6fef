import { readFileSync } from 'node:fs';

/** A block of code of a guide. */
export interface Block {
  /** The word behind its opening fence, e.g. `sh`; and the text behind that. */
  readonly language: string;
  readonly name: string;
  readonly text: string;
}

/** The blocks of `docs/guides/<guide>.md`, in order, with these values filled in. */
export function blocksOf(guide: string, values: Readonly<Record<string, string>> = {}): readonly Block[] {
  const text = filledIn(
    readFileSync(new URL(`../../docs/guides/${guide}.md`, import.meta.url), 'utf8'),
    values,
  );
  return [...text.matchAll(/^```(\w+) ?(.*)\n([\s\S]*?)^```$/gm)].map(
    ([, language = '', name = '', block = '']) => ({ language, name, text: block }),
  );
}

/** Fills in the address and the names in angle brackets, as a reader would. */
export function filledIn(text: string, values: Readonly<Record<string, string>>): string {
  return Object.entries(values).reduce((filled, [name, value]) => filled.replaceAll(name, value), text);
}

/** Whether an output equals the JSON of a guide, ignoring whitespace; `…` matches anything. */
export function isShown(shown: string, output: string): boolean {
  const dense = (text: string) => text.replaceAll(/\s/g, '');
  const parts = dense(shown)
    .split('…')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(dense(output));
}
