import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Builds the console if its sources changed, as `npm start` does. */
export default function setup(): void {
  const script = fileURLToPath(new URL('../../../console/build-if-changed', import.meta.url));
  execFileSync('sh', [script], { stdio: ['ignore', 'inherit', 'inherit'] });
}
