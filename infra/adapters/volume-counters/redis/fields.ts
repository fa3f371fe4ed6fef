import {
  ENVIRONMENTS,
  type Environment,
  EVENT_TYPES,
  type EventType,
  type VolumeIncrement,
} from '@tributary/core';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

const ENVIRONMENT_CODES: Readonly<Record<Environment, string>> = { production: 'p', development: 'd' };
const TYPE_CODES: Readonly<Record<EventType, string>> = { track: 't', identify: 'i', page: 'p', group: 'g' };

const ENVIRONMENT_OF = new Map(
  ENVIRONMENTS.map((environment) => [ENVIRONMENT_CODES[environment], environment]),
);
const TYPE_OF = new Map(EVENT_TYPES.map((type) => [TYPE_CODES[type], type]));

/** Characters of a field before the event's name. The script that counts knows this number. */
export const FIELD_HEAD = 3;

/** What a field of a day's counts stands for. */
export interface CountedField {
  readonly hour: number;
  readonly environment: Environment;
  readonly eventType: EventType;
  readonly eventName: string;
}

/** Days (UTC) since the epoch. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Epoch seconds at which a day's counts may go: look-backs reach 720 hours, a month and the day under way. */
export function expiryOf(day: number): number {
  return ((day + 33) * DAY_MS) / 1_000;
}

/** One character each for hour of the day, environment and type, then the name. */
export function fieldOf({ hour, environment, eventType, eventName }: VolumeIncrement): string {
  const ofDay = (hour - dayOf(hour) * DAY_MS) / HOUR_MS;
  return `${ofDay.toString(36)}${ENVIRONMENT_CODES[environment]}${TYPE_CODES[eventType]}${eventName}`;
}

/** Undefined for a field that this version does not know. */
export function parseField(day: number, field: string): CountedField | undefined {
  const environment = ENVIRONMENT_OF.get(field.charAt(1));
  const eventType = TYPE_OF.get(field.charAt(2));
  if (environment === undefined || eventType === undefined) return undefined;
  const hour = day * DAY_MS + Number.parseInt(field.charAt(0), 36) * HOUR_MS;
  return { hour, environment, eventType, eventName: field.slice(FIELD_HEAD) };
}
