/**
 * The variables that a child with its own environment still inherits from this process: the paths of commands
 * and of compiled output.
 */
export function inherited(): Readonly<Record<string, string>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH && { PATH }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}

/** The environment of this process for a shell that runs Tributary, which refuses unknown variables. */
export function withoutTestSettings(): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('TRIBUTARY_TEST_')),
  );
}
