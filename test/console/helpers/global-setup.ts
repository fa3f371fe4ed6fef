import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Builds the console and the documentation if their sources changed, as `npm start` does. */
export default function setup(): void {
  for (const folder of ['console', 'docs']) {
    const script = fileURLToPath(new URL(`../../../${folder}/build-if-changed`, import.meta.url));
    execFileSync('sh', [script], { stdio: ['ignore', 'inherit', 'inherit'] });
  }
}
