import {
  type CanonicalEvent,
  ENVIRONMENTS,
  EVENT_TYPES,
  type EventVerdict,
  eventName,
  HEADER,
  type Headers,
  InvalidInput,
  type Json,
  type LogEntry,
  parseObject,
  type Violation,
} from '@tributary/core';

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

/** Characters of the header at most: no more than an event has. Violations that do not fit are left out of it. */
const MAX_CHARACTERS = 32 * 1024;

/** What the event and the other headers of its entry do not say of a violation. */
type Said = Pick<Violation, 'id' | 'kind' | 'path' | 'message' | 'action'>;

/** The violations of an accepted event, for who shows it: they travel with it, as its value stays as it was received. */
export function violationsHeader(violations: readonly Violation[]): Headers {
  const texts: string[] = [];
  let characters = 0;
  for (const { id, kind, path, message, action } of violations) {
    const text = JSON.stringify({ id, kind, path, message, action } satisfies Said);
    characters += text.length + 1;
    if (characters > MAX_CHARACTERS) break;
    texts.push(text);
  }
  return texts.length === 0 ? {} : { [HEADER.violations]: `[${texts.join(',')}]` };
}

/** The violations whole again. Throws `InvalidInput` for headers that no validate wrote. */
export function violationsIn(headers: Headers, event: CanonicalEvent): readonly Violation[] {
  const text = headers[HEADER.violations];
  if (text === undefined) return [];
  const contractId = headers[HEADER.contractId] ?? '';
  const contractVersion = Number(headers[HEADER.contractVersion] ?? 0);
  return saidIn(text).map(({ id, kind, path, message, action }) => ({
    id,
    contract_id: contractId,
    contract_version: contractVersion,
    workspace_id: event.workspace_id,
    environment: event.environment,
    message_id: event.message_id,
    event_type: event.type,
    event_name: eventName(event),
    kind,
    path,
    message,
    action,
    received_at: event.received_at,
  }));
}

function saidIn(text: string): readonly Said[] {
  let said: Json;
  try {
    said = JSON.parse(text) as Json;
  } catch (error) {
    throw new InvalidInput('violations that are not JSON', { cause: error });
  }
  if (!Array.isArray(said)) throw new InvalidInput('violations that are no list');
  return said as unknown as readonly Said[];
}

/** The start of a text that others chose the length of, for values that must fit into an entry. */
export function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}...`;
}
