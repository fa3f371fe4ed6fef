import {
  type CanonicalEvent,
  type CountedEvent,
  countedEvent,
  ENVIRONMENTS,
  EVENT_TYPES,
  type EventVerdict,
  eventKind,
  eventName,
  HEADER,
  type Headers,
  InvalidInput,
  type Json,
  type LogEntry,
  mayExclude,
  parseObject,
  type RuleSubject,
  subjectOf,
  type Violation,
  violationOf,
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

/** The id of an event, its workspace, environment and type. */
export type EventIdentity = Pick<CanonicalEvent, 'message_id' | 'workspace_id' | 'environment' | 'type'>;

/**
 * The event of an entry: the fields in the headers of `validate`, and the whole, which is parsed when it is first asked for.
 * Without these headers, as in records of earlier releases, it is parsed at once. Throws `InvalidInput`.
 */
export class RecordedEvent implements EventIdentity, RuleSubject {
  readonly message_id: string;
  readonly workspace_id: string;
  readonly environment: CanonicalEvent['environment'];
  readonly type: CanonicalEvent['type'];
  /** As `eventName`. */
  readonly name: string;
  /** The event as the funnel counts it. */
  readonly counted: CountedEvent;
  readonly #entry: LogEntry;
  #event: CanonicalEvent | undefined;

  constructor(entry: LogEntry) {
    this.#entry = entry;
    const counted = countedEventIn(entry.headers) ?? countedEvent(this.event, entry.headers[HEADER.keyId]);
    const { workspaceId, environment, type, name } = counted.kind;
    this.message_id = counted.messageId;
    this.workspace_id = workspaceId;
    this.environment = environment;
    this.type = type;
    this.name = this.#event === undefined ? name : eventName(this.#event);
    this.counted = counted;
  }

  /** Its JSON, with the digits of the producer. */
  get text(): string {
    return this.#entry.value;
  }

  get event(): CanonicalEvent {
    this.#event ??= eventOf(this.#entry);
    return this.#event;
  }

  /** Undefined also where they cannot exclude a destination. */
  get integrations(): CanonicalEvent['integrations'] {
    return mayExclude(this.text) ? this.event.integrations : undefined;
  }

  /** As `subjectOf`; the key of a record of `validate` ends with it. */
  get subject(): string {
    const { key } = this.#entry;
    const before = `${this.workspace_id}:`;
    return key.startsWith(before) ? key.slice(before.length) : subjectOf(this.event);
  }
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

/**
 * Headers of an output record about `event`; `cause` are the headers of the record that it was made from. The caller adds to
 * the object: a copy for each addition would be most of what a stage allocates for an event.
 */
export function eventHeaders(
  event: EventIdentity,
  cause: Headers,
  catalogPosition: number,
): Record<string, string> {
  const headers: Record<string, string> = {
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.messageId]: event.message_id,
    [HEADER.workspaceId]: event.workspace_id,
    [HEADER.type]: event.type,
    [HEADER.environment]: event.environment,
  };
  const traceparent = cause[HEADER.traceparent];
  if (traceparent !== undefined) headers[HEADER.traceparent] = traceparent;
  return headers;
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
  const contract = {
    id: headers[HEADER.contractId] ?? '',
    version: Number(headers[HEADER.contractVersion] ?? 0),
  };
  return violationsInHeader(text).map((found) => ({
    id: found.id,
    ...violationOf(event, contract, eventName(event), found),
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

/**
 * `HEADER.countedAs`: the fields that stages need of an event that they do not parse. None where the name is longer than
 * the funnel keeps names, as the rules need the whole.
 */
export function countedHeader(event: CanonicalEvent, counted: CountedEvent): Headers {
  return counted.kind.name === eventName(event) ? { [HEADER.countedAs]: countedText(counted) } : {};
}

export function countedText({ kind: { source, key, type, name }, receivedAt }: CountedEvent): string {
  return `${source}|${key}|${type}|${receivedAt}|${name}`;
}

/** An event by the parts that the header has; undefined without it. */
export function countedIn(
  headers: Headers,
  messageId: string,
  workspaceId: string,
  environment: CanonicalEvent['environment'],
): CountedEvent | undefined {
  const text = headers[HEADER.countedAs] ?? '';
  const keyAt = text.indexOf('|') + 1;
  const typeAt = text.indexOf('|', keyAt) + 1;
  const timeAt = text.indexOf('|', typeAt) + 1;
  const nameAt = text.indexOf('|', timeAt) + 1;
  const type = EVENT_TYPES.find((known) => text.startsWith(known, typeAt));
  if (nameAt === 0 || type === undefined) return undefined;
  const [source, key, name] = [text.slice(0, keyAt - 1), text.slice(keyAt, typeAt - 1), text.slice(nameAt)];
  const kind = eventKind({ workspaceId, environment, source, key, type, name });
  return { messageId, kind, receivedAt: Number(text.slice(timeAt, nameAt - 1)) };
}

/** The event of an accepted or rejected record by its headers alone; undefined where they do not have it. */
export function countedEventIn(headers: Headers): CountedEvent | undefined {
  const environment = ENVIRONMENTS.find((known) => known === headers[HEADER.environment]);
  const { [HEADER.messageId]: messageId, [HEADER.workspaceId]: workspaceId } = headers;
  if (messageId === undefined || workspaceId === undefined || environment === undefined) return undefined;
  return countedIn(headers, messageId, workspaceId, environment);
}
