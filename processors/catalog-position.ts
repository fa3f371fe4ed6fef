import {
  type Catalog,
  type CatalogEntry,
  HEADER,
  InvalidInput,
  type LogEntry,
  messageOf,
} from '@tributary/core';

const CATALOG_WAIT_MS = 5_000;

/** The catalog position that the writer of an entry had applied. Throws `InvalidInput` for an entry without one. */
export function catalogPositionOf(entry: Pick<LogEntry, 'headers'>): number {
  const text = entry.headers[HEADER.catalogPosition];
  if (text === undefined || !/^\d{1,15}$/.test(text)) throw new InvalidInput('no catalog position');
  return Number(text);
}

/**
 * Waits until this process has applied the catalog positions of the entries' writers, so that a rule whose creation was
 * answered before an event was sent applies to the event. Throws `Unavailable` after five seconds: the stage pauses.
 */
export async function awaitCatalog(
  catalog: Catalog,
  entries: readonly Pick<LogEntry, 'headers'>[],
): Promise<void> {
  let needed = 0;
  for (const entry of entries) needed = Math.max(needed, catalogPositionOf(entry));
  if (catalog.position < needed) await catalog.waitFor(needed, CATALOG_WAIT_MS);
}

/** Waits until the fact of a catalog entry is applied; returns the position behind it. `Unavailable` as `awaitCatalog`. */
export async function awaitFact(catalog: Catalog, entry: LogEntry): Promise<number> {
  const position = entry.position.offset + 1;
  if (catalog.position < position) await catalog.waitFor(position, CATALOG_WAIT_MS);
  return position;
}

/** Whether the writer of an entry had applied more of the catalog than this process: `awaitCatalog` would wait. */
export function isAhead(entry: Pick<LogEntry, 'headers'>, catalog: Catalog): boolean {
  return catalogPositionOf(entry) > catalog.position;
}

/**
 * The content of a catalog entry: a fact, or a record of a rewrite. An invalid entry stops the catalog itself, which
 * reports it.
 */
export function factIn(entry: LogEntry): CatalogEntry | undefined {
  try {
    return JSON.parse(entry.value) as CatalogEntry;
  } catch (error) {
    throw new InvalidInput(`no fact: ${messageOf(error)}`, { cause: error });
  }
}
