import type { JsonObject } from '@tributary/core';

/** Where the context of an event tells of what was changed on its way in. */
const NOTE = 'tributary';

/** The context with what was changed. A member of the same name moves into the note, as `context`. */
export function withNote(context: JsonObject | null | undefined, note: JsonObject): JsonObject {
  const theirs = context?.[NOTE];
  return { ...context, [NOTE]: theirs === undefined ? note : { ...note, context: { [NOTE]: theirs } } };
}
