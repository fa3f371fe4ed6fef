import { fileURLToPath } from 'node:url';

/**
 * The folder of Node's compile cache, shared by the test files and the processes they start: most of a
 * start's time is spent compiling the same modules again. Entries are keyed by the content of a file.
 */
export default function setup(): void {
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
    new URL('../node_modules/.cache/compiled', import.meta.url),
  );
}
