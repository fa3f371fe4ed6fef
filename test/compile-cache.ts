import { fileURLToPath } from 'node:url';

/**
 * Where Node keeps what it compiled, for the test files and the processes they start: most of a start's time is spent
 * compiling the same modules once more. The content of a file decides whether its entry still holds.
 */
export default function setup(): void {
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
    new URL('../node_modules/.cache/compiled', import.meta.url),
  );
}
