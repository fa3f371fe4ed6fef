import type { ConnectorDescription, JsonObject } from '@tributary/core';
import { CONNECTOR_KINDS } from './registry.ts';
import { isObject } from './settings.ts';

/** The reference of every kind of destination, in Markdown, made from the descriptions: `docs/reference/connectors.md`. */
export function describeConnectors(): string {
  const ofPack = CONNECTOR_KINDS.filter(({ description }) => isOfPack(description));
  const own = CONNECTOR_KINDS.filter(({ description }) => !isOfPack(description));
  const [sections, packSections] = [own, ofPack].map((kinds) =>
    kinds.map(({ description }) => describeConnector(description)).join('\n\n'),
  );
  return `${[INTRODUCTION, sections, PACK, packSections].join('\n\n')}\n`;
}

const INTRODUCTION = [
  '# Destinations and their connectors',
  'Made from the descriptions in `connectors/`; `connectors/reference.spec.ts` keeps it up to date.',
  'A destination has a `type`, which names its connector, and `settings` as described below. Settings marked secret are sealed at rest and never returned by the API.',
].join('\n\n');

const PACK = [
  '## Destinations of the Segment pack',
  "The destinations below are those of Segment's open pack of actions. An event is converted to the form that Segment's own libraries send, with `message_id` as `messageId`; each preset whose condition it meets, and each of the `actions` of the settings, makes a request of it. An event that matches none is delivered without a request.",
  'A delivery with several actions is retried as a whole when one of them has to be retried. Most of these services recognize a repeated event by its `messageId`. A response of 408, 425, 429 or 5xx and a broken connection are retried; other refusals, and an event that an action cannot be made of (a required field is missing), are dead, with the reason.',
  'The pack is foreign code, large, and leaks memory: it runs in separate processes, one for each workspace that uses it and at most eight (beyond that workspaces share). A process starts with a delivery, ends after a minute without any, has no environment and no network, and may neither write files nor start processes. Its requests are sent by the processor, through the same guard against private addresses as all others, without following redirects. When a process ends, its deliveries are retried in a new one; when it is killed because one delivery blocks it, the others run again at once, which does not count as an attempt. It is replaced after 20,000 events. The `mapping` of an action has at most 16 KiB and 12 levels.',
].join('\n\n');

/** A section below that one, rather than beside it. */
function isOfPack({ type }: ConnectorDescription): boolean {
  return type.startsWith('segment-');
}

function describeConnector(description: ConnectorDescription): string {
  const { type, title, settingsSchema, secrets } = description;
  const { properties, required } = settingsSchema;
  const needed = new Set(Array.isArray(required) ? required : []);
  const rows = Object.entries(isObject(properties) ? properties : {}).map(([name, schema]) =>
    describeSetting(name, isObject(schema) ? schema : {}, needed.has(name), secrets.includes(name)),
  );
  const table = ['| setting | type | | what |', '|---|---|---|---|', ...rows].join('\n');
  const level = isOfPack(description) ? '###' : '##';
  return [`${level} ${title} (\`${type}\`)`, description.description, table].join('\n\n');
}

function describeSetting(name: string, schema: JsonObject, required: boolean, secret: boolean): string {
  const marks = [
    required ? 'required' : 'optional',
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
    ...(secret ? ['secret'] : []),
  ];
  const choices = Array.isArray(schema.enum)
    ? ` One of ${schema.enum.map((value) => `\`${value}\``).join(', ')}.`
    : '';
  const cells = [
    `\`${name}\``,
    describeType(schema),
    marks.join(', '),
    `${schema.description ?? ''}${choices}`,
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function describeType(schema: JsonObject): string {
  const { type, minimum, maximum } = schema;
  const range = minimum === undefined || maximum === undefined ? '' : `, ${minimum} to ${maximum}`;
  return `${String(type)}${range}`;
}
