import { type CanonicalEvent, eventName } from '@tributary/core';

export const DEFAULT_PATH = '{year}/{month}/{day}/{hour}';

const TIME = /^(\d{4})-(\d{2})-(\d{2})T(\d{2})/;

/** What the places of a path stand for. */
const PLACES = {
  date: ({ received_at }: CanonicalEvent) => received_at.slice(0, 10),
  year: (event: CanonicalEvent) => partOfTime(event, 1),
  month: (event: CanonicalEvent) => partOfTime(event, 2),
  day: (event: CanonicalEvent) => partOfTime(event, 3),
  hour: (event: CanonicalEvent) => partOfTime(event, 4),
  event: (event: CanonicalEvent) => eventName(event) || event.type,
  type: ({ type }: CanonicalEvent) => type,
  environment: ({ environment }: CanonicalEvent) => environment,
} as const satisfies Readonly<Record<string, (event: CanonicalEvent) => string>>;

type Place = keyof typeof PLACES;

function partOfTime({ received_at }: CanonicalEvent, at: number): string {
  return TIME.exec(received_at)?.[at] ?? '';
}

/** Why a path is no template; undefined for one that is. */
export function pathFault(path: string): string | undefined {
  const unknown = [...path.matchAll(/\{([^{}]*)\}/g)].find(([, name = '']) => !Object.hasOwn(PLACES, name));
  const names = Object.keys(PLACES).map((name) => `{${name}}`);
  if (unknown !== undefined) return `has ${unknown[0]}, which is none of ${names.join(', ')}`;
  const parts = path.replaceAll(/\{[a-z]+\}/g, 'x').split('/');
  return parts.every((part) => /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]*$/.test(part))
    ? undefined
    : 'must be names of letters, digits, `_`, `=`, `.`, `-` and places in braces, with a `/` between them';
}

/** Characters of a name of a producer in a path: S3 takes keys of 1,024 bytes. */
const MAX_NAME = 200;

/** The path of an event, with the characters of its name that have a meaning in paths or addresses as `%20`. */
export function pathOf(path: string, event: CanonicalEvent): string {
  return path.replaceAll(/\{([a-z]+)\}/g, (_, name: Place) => escaped(PLACES[name](event)));
}

function escaped(name: string): string {
  const short = encodeURIComponent(name.slice(0, MAX_NAME).toWellFormed()).slice(0, MAX_NAME);
  return short
    .replace(/%.?$/, '')
    .replaceAll(/[!'()*~]|^\./g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}
