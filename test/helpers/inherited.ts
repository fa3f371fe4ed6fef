/** What a process gets of this one's environment although it has one of its own: where commands and what was compiled are. */
export function inherited(): Readonly<Record<string, string>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH && { PATH }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}
