import {
  type Catalog,
  type CatalogEntry,
  HEADER,
  InvalidInput,
  type LogEntry,
  messageOf,
} from '@tributary/core';

/** The catalog position an entry's writer had applied. Throws `InvalidInput` for an entry without one. */
export function catalogPositionOf(entry: LogEntry): number {
  const text = entry.headers[HEADER.catalogPosition];
  if (text === undefined || !/^\d{1,15}$/.test(text)) throw new InvalidInput('no catalog position');
  return Number(text);
}

/**
 * Waits until this process knows what the writers of the entries knew, so that a rule that was answered with 201
 * before an event was sent is applied to it. `Unavailable` when the catalog does not come in time: the stage pauses.
 */
export async function awaitCatalog(
  catalog: Catalog,
  entries: readonly LogEntry[],
  timeoutMs: number,
): Promise<void> {
  let needed = 0;
  for (const entry of entries) needed = Math.max(needed, catalogPositionOf(entry));
  if (catalog.position < needed) await catalog.waitFor(needed, timeoutMs);
}

/** Waits until the fact of an entry of the catalog's topic is known here; the position behind it. `Unavailable` likewise. */
export async function awaitFact(catalog: Catalog, entry: LogEntry, timeoutMs: number): Promise<number> {
  const position = entry.position.offset + 1;
  if (catalog.position < position) await catalog.waitFor(position, timeoutMs);
  return position;
}

/** Whether what the writer of an entry knew is not known here yet: `awaitCatalog` would wait. */
export function isAhead(entry: LogEntry, catalog: Catalog): boolean {
  return catalogPositionOf(entry) > catalog.position;
}

/**
 * What an entry of the catalog's topic holds: a fact, or a record of a rewrite, which tells of nothing. What is no fact
 * at all stops the catalog itself, which says so.
 */
export function factIn(entry: LogEntry): CatalogEntry | undefined {
  try {
    return JSON.parse(entry.value) as CatalogEntry;
  } catch (error) {
    throw new InvalidInput(`no fact: ${messageOf(error)}`, { cause: error });
  }
}
