import type { CanonicalEvent } from '@tributary/core';

/** What a message and an event have in common is a value of the event from so many characters on. */
const SHORTEST_VALUE = 6;
const MASK = '***';

/**
 * A failure's message without what it quotes of the event, whole or in part: engines cut what they quote. A message
 * that goes into the catalog is kept for ever and shown to whoever may see the transformation; an event is not.
 */
export function messageWithoutValues(message: string, event: CanonicalEvent): string {
  const values = valuesIn(event).join('\n');
  let shown = '';
  let at = 0;
  while (at < message.length) {
    let end = at + SHORTEST_VALUE;
    if (end > message.length || !values.includes(message.slice(at, end))) {
      shown += message.charAt(at++);
      continue;
    }
    while (end < message.length && values.includes(message.slice(at, end + 1))) end++;
    shown += MASK;
    at = end;
  }
  return shown;
}

/** Of what the producer chose the values; names of fields are no secrets. */
function valuesIn({ type, environment, ...event }: CanonicalEvent): readonly string[] {
  return leavesOf(event);
}

function leavesOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(leavesOf);
}
