import { deeperThan } from '../contracts/json-values.ts';
import type { SandboxErrorKind, SandboxResult } from '../ports/sandbox.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { mayHoldExactNumbers, parseExact, parseObject, withDigitsOf } from '../primitives/json.ts';
import { canonicalTime } from '../primitives/time.ts';
import {
  type CanonicalEvent,
  EVENT_FIELDS,
  EVENT_TYPES,
  type EventType,
  fieldFor,
  isObject,
  type JsonObject,
  MAX_EVENT_BYTES,
  OUTPUT_ROOM_BYTES,
  subjectOf,
} from './event.ts';

/*
 * The rules of events that a transformation takes and returns. The stage, tests and dry runs all read results with
 * `transformedFrom`, so that a test passes only where the stage would deliver.
 */

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

const TEXTS = ['event', 'name', 'category', 'group_id', 'previous_id', 'user_id', 'anonymous_id'] as const;
const OBJECTS = ['properties', 'traits', 'context', 'integrations'] as const;

/**
 * Reads the result of the sandbox for an event; `text` is the event as JSON. One invalid output fails the whole event: its
 * outputs are delivered together or not at all.
 */
export function transformedFrom(source: CanonicalEvent, result: SandboxResult, text = ''): Transformed {
  if (!result.ok) {
    return { ok: false, kind: result.kind, message: shortened(result.message) };
  }
  try {
    const exact = mayHoldExactNumbers(text) ? parseExact(text) : undefined;
    return { ok: true, events: result.outputs.map((output) => eventFrom(source, output, text, exact)) };
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    return { ok: false, kind: 'output', message: shortened(error.message) };
  }
}

function shortened(message: string): string {
  return message.length <= MESSAGE_LENGTH ? message : `${message.slice(0, MESSAGE_LENGTH)}...`;
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
  const missing = missingIn(event);
  if (missing !== undefined) throw new InvalidInput(missing);
  const excess = excessOf(event, exact === undefined ? bytesAtMost(output) : Infinity, text);
  if (excess !== undefined) throw new InvalidInput(`more than ${excess} bytes`);
  return event;
}

/** Why an event is incomplete for its type, as at ingestion; undefined where it is not. */
function missingIn(event: CanonicalEvent): string | undefined {
  if (subjectOf(event) === '')
    return `neither user_id nor anonymous_id${misspelt(event, ['userId', 'anonymousId'])}`;
  if (event.type === 'track' && !event.event) return 'a track without event, its name';
  if (event.type === 'group' && !event.group_id)
    return `a group without group_id${misspelt(event, ['groupId'])}`;
  return undefined;
}

/** Names its fields as other systems write them. */
function misspelt(event: object, names: readonly string[]): string {
  const found = names.find((name) => Object.hasOwn(event, name));
  return found === undefined ? '' : `: write ${fieldFor(found)} for ${found}`;
}

/** An exponent of three digits or more: only `JSON.rawJSON` writes numbers that are out of range. */
const LARGE_EXPONENT = /[0-9][eE]\+?[0-9]{3}|[0-9]{300}/;
/** The escape of a lone surrogate: half of a truncated emoji. */
const HALF_PAIR = /\\u[dD]/;

/** Twice the levels of a received event, so that one can be wrapped. Code that reads events by recursion relies on a bound. */
const MAX_OUTPUT_DEPTH = 128;

function readOutput(output: string, exact: unknown): Record<string, unknown> {
  const fields = parseObject(output, parseExact);
  if (deeperThan(fields as JsonObject, MAX_OUTPUT_DEPTH))
    throw new InvalidInput(`is nested more than ${MAX_OUTPUT_DEPTH} levels deep`);
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

function typeOf(type: unknown): EventType {
  const known = EVENT_TYPES.find((name) => name === type);
  if (known === undefined) throw new InvalidInput(`type is none of ${EVENT_TYPES.join(', ')}`);
  return known;
}

function timestampOf(timestamp: unknown, source: CanonicalEvent): string {
  if (timestamp === undefined) return source.timestamp;
  const canonical = typeof timestamp === 'string' ? canonicalTime(timestamp) : undefined;
  if (canonical === undefined)
    throw new InvalidInput(
      typeof timestamp === 'number'
        ? 'timestamp is a number: write new Date(...).toISOString()'
        : 'timestamp is not an ISO 8601 time',
    );
  return canonical;
}

/** An event of a test as the pipeline would give it to a transformation, and what was filled in for that. */
export interface TrialEvent {
  readonly source: CanonicalEvent;
  readonly filled: JsonObject;
}

const TRIAL_TIME = '2026-01-01T00:00:00.000Z';

/**
 * Completes the event of a test by the rules of the pipeline. Fields that every event has are filled in where they are
 * absent. Throws `InvalidInput` for an event that the pipeline never has.
 */
export function trialEvent(event: JsonObject, workspaceId: string): TrialEvent {
  const unknown = Object.keys(event).find((name) => !EVENT_FIELDS.includes(name));
  if (unknown !== undefined) {
    const field = fieldFor(unknown);
    const hint = EVENT_FIELDS.includes(field)
      ? `write ${field}`
      : 'its own fields are in properties or traits';
    throw new InvalidInput(`an event has no ${unknown}: ${hint}`);
  }
  const { received_at, message_id, environment, source_id } = event;
  const receivedAt = (typeof received_at === 'string' ? canonicalTime(received_at) : undefined) ?? TRIAL_TIME;
  const kept = {
    message_id: typeof message_id === 'string' ? message_id : 'test',
    type: 'track',
    timestamp: receivedAt,
    received_at: receivedAt,
    environment: environment === 'production' ? 'production' : 'development',
    workspace_id: workspaceId,
    ...(typeof source_id === 'string' ? { source_id } : {}),
  } as const;
  const { type = 'track', user_id, anonymous_id } = event;
  const filled: JsonObject = {
    type,
    ...(type === 'track' ? { event: 'Test' } : {}),
    ...(type === 'group' ? { group_id: 'test' } : {}),
    ...(user_id == null && anonymous_id == null ? { user_id: 'test' } : {}),
  };
  const absent = Object.entries(filled).filter(([name]) => event[name] == null);
  const whole = { ...event, ...Object.fromEntries(absent) };
  const text = JSON.stringify(whole);
  const exact = mayHoldExactNumbers(text) ? parseExact(text) : undefined;
  return { source: eventFrom(kept, text, text, exact), filled: Object.fromEntries(absent) };
}

/** The event that a test expects, by the rules of outputs. Throws `InvalidInput`. */
export function expectedEvent(event: JsonObject, { source, filled }: TrialEvent): CanonicalEvent {
  const input = JSON.stringify(source);
  const exact = mayHoldExactNumbers(input) ? parseExact(input) : undefined;
  return eventFrom(source, JSON.stringify({ ...filled, ...event }), input, exact);
}

/** The fields of an event of a test that its author wrote: without those that `trialEvent` filled in. */
export function asWritten(
  output: CanonicalEvent,
  given: JsonObject,
  { source, filled }: TrialEvent,
): JsonObject {
  const added: Readonly<Record<string, unknown>> = { ...keptFieldsOf(source), ...filled };
  return Object.fromEntries(
    Object.entries(output).filter(
      ([name, value]) => value !== undefined && (Object.hasOwn(given, name) || added[name] !== value),
    ),
  ) as JsonObject;
}

/** The fields that an output has of its event whatever the function returns, and its time. */
function keptFieldsOf({
  message_id,
  timestamp,
  received_at,
  environment,
  workspace_id,
  source_id,
}: CanonicalEvent) {
  return { message_id, timestamp, received_at, environment, workspace_id, source_id };
}
