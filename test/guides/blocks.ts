import { readdirSync, readFileSync } from 'node:fs';

const FOLDER = new URL('../../docs/guides/', import.meta.url);

/** One action of a reader of a guide. */
export type Step =
  /** Commands for the terminal, with what they print: exactly as `text`, or as JSON whatever its white space. */
  | {
      readonly does: 'run';
      readonly code: string;
      readonly prints: { readonly language: 'text' | 'json'; readonly text: string } | undefined;
    }
  /** A block whose fence names a file, which the reader saves. */
  | { readonly does: 'save'; readonly file: string; readonly text: string }
  /** A line that says `Open <address>`. */
  | { readonly does: 'open'; readonly address: string };

/** A guide that has something in it that no reader, and so no test, could do. */
export class UnusableGuide extends Error {}

/** The names of all guides: `docs/guides/<name>.md`. */
export function guides(): readonly string[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.md'))
    .map((file) => file.slice(0, -'.md'.length))
    .sort();
}

/** The text of `docs/guides/<guide>.md`. */
export function readGuide(guide: string): string {
  return readFileSync(new URL(`${guide}.md`, FOLDER), 'utf8');
}

/** A guide without one of its sections. */
export function withoutSection(text: string, heading: string): string {
  return text.replace(new RegExp(`^## ${heading}\\n[\\s\\S]*?(?=^## |(?![\\s\\S]))`, 'm'), '');
}

const BLOCK_OR_OPEN = /^( *)```(.*)\n([\s\S]*?)^\1```$|^(?:\d\. )?Open <(\S+)>/gm;

/** The steps of a guide, in order. */
export function parseSteps(text: string): readonly Step[] {
  const steps: Step[] = [];
  for (const [, , info = '', body = '', address] of text.matchAll(BLOCK_OR_OPEN)) {
    if (address !== undefined) {
      steps.push({ does: 'open', address });
      continue;
    }
    const [language = '', file] = info.split(' ');
    const last = steps.at(-1);
    if (file !== undefined) steps.push({ does: 'save', file, text: body });
    else if (language === 'sh') steps.push({ does: 'run', code: body, prints: undefined });
    else if (
      (language === 'text' || language === 'json') &&
      last?.does === 'run' &&
      last.prints === undefined
    )
      steps[steps.length - 1] = { ...last, prints: { language, text: body } };
    else throw new UnusableGuide(`a block that is neither run, saved nor printed: ${info}\n${body}`);
  }
  const fences = text.match(/^ *(```|~~~)/gm)?.length ?? 0;
  const blocks = [...text.matchAll(BLOCK_OR_OPEN)].filter(([, , info]) => info !== undefined).length;
  if (fences !== 2 * blocks) throw new UnusableGuide(`${fences} fences around ${blocks} blocks`);
  if (steps.length === 0) throw new UnusableGuide('a guide without a block');
  return steps;
}

/** Whether an output is the one that a guide shows, where `…` stands for anything. */
export function isShown(
  { language, text }: { language: 'text' | 'json'; text: string },
  output: string,
): boolean {
  const normal = (given: string) => (language === 'json' ? given.replaceAll(/\s/g, '') : given.trim());
  const parts = normal(text)
    .split('…')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(normal(output));
}
