import type { Json } from '../event/event.ts';

/** Whether the value says that there is an object, and nothing of what is in it. */
export function isEmptyObject(value: Json): boolean {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  );
}
