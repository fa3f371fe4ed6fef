import type { ConnectorDescription, JsonObject } from '@tributary/core';
import { CONNECTOR_KINDS } from './registry.ts';
import { isObject } from './settings.ts';

/** The reference of every kind of destination, in Markdown, made from the descriptions: `docs/connectors.md`. */
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
  'A destination has a `type`, which names its connector, and `settings` as told below. Settings marked secret are sealed at rest and never leave through the API again.',
].join('\n\n');

const PACK = [
  '## Destinations of the Segment pack',
  "The destinations below are those of Segment's open pack of actions. An event is turned into what Segment's own libraries would have sent, with `message_id` as `messageId`; each preset whose condition it meets, and each of the `actions` of the settings, makes a request of it. An event that none takes is delivered: there is nothing to send.",
  'A delivery whose actions are several is tried again as a whole when one of them is to be tried again. Most of these services tell a repeated event by its `messageId`. An answer of 408, 425, 429 or 5xx and a broken connection are tried again; other refusals, and an event of which an action cannot be made (a required field is missing), are given up, with the reason.',
  'The pack is code of others, large, and keeps memory: it runs in processes of its own, one for each workspace that sends by it and eight at most (beyond that workspaces share). One begins with a delivery, ends after a minute without any, has no environment, may not write or start anything and has no network. What it would send is sent for it, through the same guard against private addresses as everything else, without following redirects. When a process ends its deliveries are tried again in a new one; when it is killed because one of them holds it up, the others are run again at once, which is no attempt. It is replaced after 20,000 events. The `mapping` of an action has 16 KiB and 12 levels at most.',
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
