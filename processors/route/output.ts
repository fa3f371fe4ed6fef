import {
  type CanonicalEvent,
  canonicalTime,
  EVENT_TYPES,
  type EventType,
  InvalidInput,
  MAX_EVENT_BYTES,
  mayHoldExactNumbers,
  OUTPUT_ROOM_BYTES,
  parseExact,
  parseObject,
  type SandboxErrorKind,
  type SandboxResult,
  subjectOf,
  withDigitsOf,
} from '@tributary/core';
import { shorten } from '../event-record.ts';
import { pieceOf, type RunPiece } from '../fairness/slow-queue-scheduler.ts';

/** Characters of a failure's message that are kept. */
const MESSAGE_LENGTH = 500;

/** Bytes of UTF-8 that a UTF-16 unit takes at most. */
const BYTES_PER_UNIT = 3;
/** Bytes that the fields kept from the source stay below together: ids of 100 characters and times. */
const KEPT_BYTES = 2_048;

/** The events that a transformation returned for one event. `isLarge`: handle them in several pieces. */
export interface TransformedEvents {
  readonly ok: true;
  readonly events: readonly CanonicalEvent[];
  readonly isLarge?: true;
}

/** The returned events, or why nothing can be delivered. */
export type Transformed =
  | TransformedEvents
  | { readonly ok: false; readonly kind: SandboxErrorKind; readonly message: string };

const TEXTS = ['event', 'name', 'group_id', 'user_id', 'anonymous_id'] as const;
const OBJECTS = ['properties', 'traits', 'context'] as const;

/**
 * Reads the result of the sandbox for an event; `text` is the event as JSON. One invalid output fails the whole event: its
 * outputs are delivered together or not at all.
 */
export function transformedFrom(source: CanonicalEvent, result: SandboxResult, text = ''): Transformed {
  if (!result.ok) {
    return { ok: false, kind: result.kind, message: shorten(result.message, MESSAGE_LENGTH) };
  }
  try {
    const exact = mayHoldExactNumbers(text) ? parseExact(text) : undefined;
    return { ok: true, events: result.outputs.map((output) => eventFrom(source, output, text, exact)) };
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    return { ok: false, kind: 'output', message: shorten(error.message, MESSAGE_LENGTH) };
  }
}

/** As `transformedFrom`, for large outputs, in several pieces of work. */
export async function transformedInPieces(
  source: CanonicalEvent,
  result: SandboxResult & { readonly ok: true },
  text: string,
  runPiece: RunPiece,
): Promise<Transformed> {
  const events: CanonicalEvent[] = [];
  while (events.length < result.outputs.length) {
    const outputs = pieceOf(result.outputs, events.length);
    const read = () => transformedFrom(source, { ...result, outputs }, text);
    const piece = await runPiece(source.workspace_id, read);
    if (!piece.ok) return piece;
    events.push(...piece.events);
  }
  return { ok: true, events, isLarge: true };
}

/**
 * The event of an output. Throws `InvalidInput` for an invalid one.
 *
 * - `message_id`, `workspace_id`, `source_id`, `environment` and `received_at` are always those of the source, and so is
 *   `timestamp` where the output has none.
 * - `null` counts as absent, and so does an empty `user_id` or `anonymous_id`.
 * - A number with the same double as one of `exact`, the source with its digits, gets these digits.
 * - `text` is the input of the transformation: an output may be as large and a little larger.
 */
export function eventFrom(
  source: CanonicalEvent,
  output: string,
  text = '',
  exact?: unknown,
): CanonicalEvent {
  const fields = withoutAbsent(readOutput(output, exact));
  for (const name of TEXTS) {
    if (fields[name] !== undefined && typeof fields[name] !== 'string')
      throw new InvalidInput(`${name} is not a string`);
  }
  for (const name of OBJECTS) {
    if (fields[name] !== undefined && !isObject(fields[name]))
      throw new InvalidInput(`${name} is not an object`);
  }
  const event = {
    ...fields,
    message_id: source.message_id,
    type: typeOf(fields.type),
    timestamp: timestampOf(fields.timestamp, source),
    received_at: source.received_at,
    environment: source.environment,
    workspace_id: source.workspace_id,
    source_id: source.source_id,
  } as CanonicalEvent; // the loops above looked at the other fields; an absent source_id is left out of the JSON text
  if (subjectOf(event) === '') throw new InvalidInput('neither user_id nor anonymous_id');
  const excess = excessOf(event, exact === undefined ? bytesAtMost(output) : Infinity, text);
  if (excess !== undefined) throw new InvalidInput(`more than ${excess} bytes`);
  return event;
}

/** An exponent of three digits or more: only `JSON.rawJSON` writes numbers that are out of range. */
const LARGE_EXPONENT = /[0-9][eE]\+?[0-9]{3}|[0-9]{300}/;
/** The escape of a lone surrogate: half of a truncated emoji. */
const HALF_PAIR = /\\u[dD]/;

function readOutput(output: string, exact: unknown): Record<string, unknown> {
  const fields = parseObject(output, parseExact);
  if (LARGE_EXPONENT.test(output) && holdsInfinity(fields))
    throw new InvalidInput('holds a number that is too large');
  const whole = HALF_PAIR.test(output) ? (wellFormed(fields) as Record<string, unknown>) : fields;
  return exact === undefined ? whole : withDigitsOf(whole, exact);
}

function holdsInfinity(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsInfinity);
}

/** Replaces lone surrogates by U+FFFD, as UTF-8 has none. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  if (Array.isArray(value)) return value.map(wellFormed);
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), wellFormed(member)]),
  );
}

/** An upper bound of the UTF-8 bytes of an output; counted exactly only where that decides. */
function bytesAtMost(output: string): number {
  const most = output.length * BYTES_PER_UNIT;
  return most + KEPT_BYTES <= MAX_EVENT_BYTES ? most : Buffer.byteLength(output);
}

/**
 * The size limit of an event where it exceeds it, else undefined. The event is serialized only where the upper bound exceeds
 * the limit, as restored digits may have any length.
 */
function excessOf(event: CanonicalEvent, outputBytes: number, text: string): number | undefined {
  if (outputBytes + KEPT_BYTES <= MAX_EVENT_BYTES) return undefined;
  const bytes = Buffer.byteLength(JSON.stringify(event));
  if (bytes <= MAX_EVENT_BYTES) return undefined;
  const atMost = Math.max(MAX_EVENT_BYTES, Buffer.byteLength(text) + OUTPUT_ROOM_BYTES);
  return bytes > atMost ? atMost : undefined;
}

function withoutAbsent(fields: Record<string, unknown>): Record<string, unknown> {
  const hasEmptyId = fields.user_id === '' || fields.anonymous_id === '';
  if (!hasEmptyId && !Object.values(fields).includes(null)) return fields;
  const isAbsent = (name: string, value: unknown) =>
    value === null || (value === '' && (name === 'user_id' || name === 'anonymous_id'));
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) => !isAbsent(name, value)));
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

function typeOf(type: unknown): EventType {
  const known = EVENT_TYPES.find((name) => name === type);
  if (known === undefined) throw new InvalidInput(`type is none of ${EVENT_TYPES.join(', ')}`);
  return known;
}

function timestampOf(timestamp: unknown, source: CanonicalEvent): string {
  if (timestamp === undefined) return source.timestamp;
  const canonical = typeof timestamp === 'string' ? canonicalTime(timestamp) : undefined;
  if (canonical === undefined) throw new InvalidInput('timestamp is not an ISO 8601 time');
  return canonical;
}
