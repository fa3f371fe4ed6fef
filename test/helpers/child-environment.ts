/** What a process gets of this one's environment although it has one of its own: where commands and what was compiled are. */
export function inherited(): Readonly<Record<string, string>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH && { PATH }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}

/** The environment of this process for a shell that runs Tributary, which refuses variables that it does not know. */
export function withoutTestSettings(): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('TRIBUTARY_TEST_')),
  );
}
