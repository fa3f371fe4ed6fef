import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * How a spec says, in its first line, that it runs while no other does, and why: `// Runs alone: it holds times.` One
 * that only does so much in the long form that others would run out of their time says `Runs alone in the long form`.
 */
const MARK = /^\/\/ Runs alone(?<whenLong> in the long form)?: \S/;

/** The specs that say so, by their paths below `root`. */
export function aloneSpecs(root: string, isLong: boolean): readonly string[] {
  return globSync('test/**/*.spec.ts', { cwd: root }).filter((path) => {
    const mark = MARK.exec(readFileSync(join(root, path), 'utf8'));
    return mark !== null && (isLong || mark.groups?.whenLong === undefined);
  });
}
