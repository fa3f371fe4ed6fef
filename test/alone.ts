import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** How a spec says, in its first line, that it runs while no other does, and why: `// Runs alone: it holds times.` */
const MARK = /^\/\/ Runs alone: \S/;

/** The specs that say so, by their paths below `root`. */
export function aloneSpecs(root: string): readonly string[] {
  return globSync('test/**/*.spec.ts', { cwd: root }).filter((path) =>
    MARK.test(readFileSync(join(root, path), 'utf8')),
  );
}
