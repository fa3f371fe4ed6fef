import {
  type CanonicalEvent,
  type CatalogEntry,
  ENVIRONMENTS,
  EVENT_TYPES,
  type EventVerdict,
  HEADER,
  type Headers,
  InvalidInput,
  type LogEntry,
  messageOf,
  parseObject,
} from '@tributary/core';

/** The catalog position an entry's writer had applied. Throws `InvalidInput` for an entry without one. */
export function catalogPositionOf(entry: LogEntry): number {
  const text = entry.headers[HEADER.catalogPosition];
  if (text === undefined || !/^\d{1,15}$/.test(text)) throw new InvalidInput('no catalog position');
  return Number(text);
}

/**
 * The canonical event an entry holds. Fields are the gateway's promise; only those are checked without which a stage
 * could put the event somewhere wrong. Throws `InvalidInput`.
 */
export function eventOf(entry: LogEntry): CanonicalEvent {
  const event = parseObject(entry.value) as Partial<CanonicalEvent>;
  const { message_id, workspace_id, received_at, type, environment } = event;
  if (typeof message_id !== 'string' || message_id === '') throw new InvalidInput('no message_id');
  if (typeof workspace_id !== 'string' || workspace_id === '') throw new InvalidInput('no workspace_id');
  if (typeof received_at !== 'string' || Number.isNaN(Date.parse(received_at)))
    throw new InvalidInput('no received_at');
  if (type === undefined || !EVENT_TYPES.includes(type)) throw new InvalidInput('no event type');
  if (environment === undefined || !ENVIRONMENTS.includes(environment))
    throw new InvalidInput('no environment');
  return event as CanonicalEvent;
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

/** Epoch ms of a time that is written down. Throws `InvalidInput` for what is none. */
export function timeOf(iso: string): number {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) throw new InvalidInput('no time');
  return at;
}

/** What the headers of an accepted event tell of its contract; undefined where none judged it. */
export function verdictIn(headers: Headers): EventVerdict | undefined {
  const outcome = headers[HEADER.outcome];
  const id = headers[HEADER.contractId];
  const version = headers[HEADER.contractVersion];
  if (id === undefined || version === undefined) return undefined;
  return {
    outcome: outcome === 'warned' || outcome === 'omitted' ? outcome : 'accepted',
    id,
    version: Number(version),
  };
}

/** Headers of an entry that is about `event`, caused by an entry with the headers `cause`. */
export function eventHeaders(event: CanonicalEvent, cause: Headers, catalogPosition: number): Headers {
  const traceparent = cause[HEADER.traceparent];
  return {
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.messageId]: event.message_id,
    [HEADER.workspaceId]: event.workspace_id,
    [HEADER.type]: event.type,
    [HEADER.environment]: event.environment,
    ...(traceparent === undefined ? {} : { [HEADER.traceparent]: traceparent }),
  };
}
