import { readFileSync } from 'node:fs';

/** A code block of a guide. */
export interface Block {
  readonly language: string;
  readonly text: string;
}

export function blocksOf(guide: string): readonly Block[] {
  const text = readFileSync(new URL(`../../docs/${guide}`, import.meta.url), 'utf8');
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', block = '']) => ({
    language,
    text: block,
  }));
}

/** What a reader would put in place of the address and the names in angle brackets. */
export function filledIn(text: string, values: Readonly<Record<string, string>>): string {
  return Object.entries(values).reduce((filled, [name, value]) => filled.replaceAll(name, value), text);
}

/** Whether an output is the JSON that a guide shows, however it is spaced; `…` stands for anything. */
export function isShown(shown: string, output: string): boolean {
  const dense = (text: string) => text.replaceAll(/\s/g, '');
  const parts = dense(shown)
    .split('…')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(dense(output));
}
