import {
  type CanonicalEvent,
  type CountedEvent,
  type Delivery,
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
 * The canonical event of an entry. The gateway guarantees its fields; only those that decide where an event belongs are
 * checked. Throws `InvalidInput`.
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

/** Epoch ms of an ISO 8601 time. Throws `InvalidInput`. */
export function timeOf(iso: string): number {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) throw new InvalidInput('no time');
  return at;
}

/** The contract and its verdict in the headers of an accepted event; undefined for an event without a contract. */
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

/** Headers of an output record about `event`; `cause` are the headers of the record that it was made from. */
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

/** Characters of the header at most, the size of an event. Violations that do not fit are left out. */
const MAX_CHARACTERS = 32 * 1024;

/** The fields of a violation that neither the event nor the other headers have. */
type HeaderViolation = Pick<Violation, 'id' | 'kind' | 'path' | 'message' | 'action'>;

/** The violations of an accepted event as a header, for displaying it: its value stays as it was received. */
export function violationsHeader(violations: readonly Violation[]): Headers {
  const texts: string[] = [];
  let characters = 0;
  for (const { id, kind, path, message, action } of violations) {
    const text = JSON.stringify({ id, kind, path, message, action } satisfies HeaderViolation);
    characters += text.length + 1;
    if (characters > MAX_CHARACTERS) break;
    texts.push(text);
  }
  return texts.length === 0 ? {} : { [HEADER.violations]: `[${texts.join(',')}]` };
}

/** The complete violations of an accepted event. Throws `InvalidInput` for an invalid header. */
export function violationsIn(headers: Headers, event: CanonicalEvent): readonly Violation[] {
  const text = headers[HEADER.violations];
  if (text === undefined) return [];
  const contractId = headers[HEADER.contractId] ?? '';
  const contractVersion = Number(headers[HEADER.contractVersion] ?? 0);
  return violationsInHeader(text).map(({ id, kind, path, message, action }) => ({
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

function violationsInHeader(text: string): readonly HeaderViolation[] {
  let parsed: Json;
  try {
    parsed = JSON.parse(text) as Json;
  } catch (error) {
    throw new InvalidInput('violations that are not JSON', { cause: error });
  }
  if (!Array.isArray(parsed)) throw new InvalidInput('violations that are no list');
  return parsed as unknown as readonly HeaderViolation[];
}

/** Truncates a text of unbounded length, so that it fits into a record. */
export function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}...`;
}

/** The header by which the deliver stages count a delivery without parsing its event: as the event that its rule matched. */
export function countedAsHeader({ source, key, type, receivedAt, name }: CountedEvent): string {
  return `${source}|${key}|${type}|${receivedAt}|${name}`;
}

/** The event of that header; undefined without one. */
export function countedIn(delivery: Delivery, headers: Headers): CountedEvent | undefined {
  const [source, key, typeText, receivedAt, ...name] = headers[HEADER.countedAs]?.split('|') ?? [];
  const type = EVENT_TYPES.find((known) => known === typeText);
  if (source === undefined || key === undefined || type === undefined) return undefined;
  return {
    messageId: delivery.message_id,
    workspaceId: delivery.workspace_id,
    environment: delivery.environment,
    source,
    key,
    type,
    name: name.join('|'),
    receivedAt: Number(receivedAt),
  };
}
