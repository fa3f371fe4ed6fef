import type { ConnectorDescription, JsonObject } from '@tributary/core';
import { isObject } from './json.ts';
import { CONNECTOR_KINDS } from './registry.ts';

/** The reference of every kind of destination, in Markdown, made from the descriptions: `docs/connectors.md`. */
export function describeConnectors(): string {
  const sections = CONNECTOR_KINDS.map(({ description }) => describeConnector(description));
  return `${[INTRODUCTION, ...sections].join('\n\n')}\n`;
}

const INTRODUCTION = [
  '# Destinations and their connectors',
  'Made from the descriptions in `connectors/`; `connectors/reference.spec.ts` keeps it up to date.',
  'A destination has a `type`, which names its connector, and `settings` as told below. Settings marked secret are sealed at rest and never leave through the API again.',
].join('\n\n');

function describeConnector(description: ConnectorDescription): string {
  const { type, title, settingsSchema, secrets } = description;
  const { properties, required } = settingsSchema;
  const needed = new Set(Array.isArray(required) ? required : []);
  const rows = Object.entries(isObject(properties) ? properties : {}).map(([name, schema]) =>
    describeSetting(name, isObject(schema) ? schema : {}, needed.has(name), secrets.includes(name)),
  );
  const table = ['| setting | type | | what |', '|---|---|---|---|', ...rows].join('\n');
  return [`## ${title} (\`${type}\`)`, description.description, table].join('\n\n');
}

function describeSetting(name: string, schema: JsonObject, required: boolean, secret: boolean): string {
  const marks = [
    required ? 'required' : 'optional',
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
    ...(secret ? ['secret'] : []),
  ];
  const cells = [`\`${name}\``, describeType(schema), marks.join(', '), String(schema.description ?? '')];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function describeType(schema: JsonObject): string {
  const { type, minimum, maximum } = schema;
  const range = minimum === undefined || maximum === undefined ? '' : `, ${minimum} to ${maximum}`;
  return `${String(type)}${range}`;
}
