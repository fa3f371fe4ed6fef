import { type ConnectorDescription, type JsonObject, objectIn } from '@tributary/core';
import { OWN_KINDS } from './registry.ts';
import { DEFINITIONS } from './segment/connector.ts';
import { DEDUPLICATION } from './segment/deduplication.ts';
import { VENDOR_ANSWERS } from './segment/pack-run.ts';
import { WAREHOUSE_KINDS } from './warehouses/kinds.ts';

/** The reference of every kind of destination, in Markdown, made from the descriptions: `docs/reference/connectors.md`. */
export function describeConnectors(): string {
  const shared = sharedSettings();
  const [sections, warehouses] = [OWN_KINDS, WAREHOUSE_KINDS].map((kinds) =>
    kinds.map(({ description }) => describeConnector(description, shared)).join('\n\n'),
  );
  const settings = ['## Settings of several types', [...shared].join('\n')].join('\n\n');
  return `${[INTRODUCTION, repeatsTable(), settings, sections, WAREHOUSES, warehouses, PACK, answersTable()].join('\n\n')}\n`;
}

/** The lines of settings that three types or more describe in the same words. */
function sharedSettings(): ReadonlySet<string> {
  const lines = [...OWN_KINDS, ...WAREHOUSE_KINDS].flatMap(({ description }) =>
    settingsOf(description).map((one) => lineOf(one)),
  );
  return new Set(lines.filter((line) => lines.filter((other) => other === line).length >= 3));
}

/** The day on which the documents of the vendors were read last. */
const VENDORS_READ_ON = '2026-11-29 and 30';

const INTRODUCTION = [
  '# Destinations and their connectors',
  'Made from the descriptions in `connectors/`; `connectors/reference.spec.ts` keeps it up to date.',
  'A destination has a `type`, which names its connector, and `settings` as described below. Settings marked secret are sealed at rest and never returned by the API.',
].join('\n\n');

const WAREHOUSES = [
  '## Warehouses',
  'Warehouses get no deliveries: a loader fills them with all events of the workspace, or with those that rules for them take, and with its profiles ([guide](../guides/warehouses.md), [tables and types](warehouse-tables.md)). A row that is there already is left alone.',
].join('\n\n');

const PACK = [
  '## Destinations of the Segment pack',
  "These are destinations of Segment's open pack of actions (`@segment/action-destinations`): [all of them](segment-destinations.md), and [how they agree with the documents of vendors](segment-vendors.md).",
  'The setting `subscriptions` says which events become which actions: a list of `{ "name", "action", "trigger", "mapping", "enabled", "batch" }`. `trigger` selects events, for example `type = "track" and event = "Order Placed"`; with `and` and `or` it needs parentheses, which cannot be nested. `mapping` gives the fields of the action values, in the form of Segment\'s mapping kit, of at most 16 KiB and 12 levels. One that cannot run is refused with its place; a subscription that is not enabled may lack required fields. `GET destination-types/{type}` has the fields of all actions, and the subscriptions of the presets, which a destination without any gets.',
  'A destination that is stored without `subscriptions` runs the presets of the pack, as those of release 0.2.0 do: `presets` selects some of them, and `actions` has further ones with a mapping.',
  'Each subscription whose trigger an event meets makes a request of it; an event of which none does is `unwanted`. `POST destinations/{id}/preview`, and `POST destination-types/{type}/preview` before anything is saved, show what an event would become, and with `recent_events` how many recent events meet the trigger; nothing is sent. `POST destinations/{id}/test` sends an event, and returns the requests and their responses.',
  'With `"batch": true` the events of a subscription share requests, where its action can ([marked](segment-destinations.md)); else, and where the mapping says `"enable_batching": false`, each event has its own. `batch_size`, `batch_bytes` and `batch_keys` of the mapping, or their defaults, bound a batch, and so do 1,000 events and 256 KiB; beside subscriptions that send one by one, 50 events. Events of a subject keep their order, and each event has an outcome of its own. A batch that is refused as a whole is sent again in halves at once; a 401 that is about some events renews the token and sends these alone again.',
  'Fields that are `dynamic` have choices that only the vendor knows: `POST .../dynamic-field` asks for them, within 10 seconds, and keeps an answer for a minute. An action with `hooks` can do something at the vendor, such as create a list: `POST destinations/{id}/hook` runs one, and its inputs and outputs become part of the mapping. A run with the same inputs is not repeated; one whose end is unknown only with `again`.',
  'No call of the API deletes people (`deletes`) or creates audiences (`audiences`) at vendors yet.',
  'A delivery with several actions is retried as a whole. 429 sets the pace of the destination; 408, 425, 5xx and a broken connection are retried; other refusals are dead, and so is a 2xx whose body says that [nothing was stored](#answers-that-say-not-stored). An event that lacks what an action requires is dead with the reason `not sent: ...`, which does not count for the health.',
  'Requests go to the hosts that the code of the destination names, and to those that its settings name as a whole, so a setting cannot lead its key elsewhere. The pack is foreign code: it runs in separate processes, at most eight, without network, files and environment but for the [secrets of partners](segment-destinations.md#secrets-of-partners). The processor sends its requests, without following redirects.',
].join('\n\n');

function repeatsTable(): string {
  const read = DEFINITIONS.filter(({ destination }) => Object.hasOwn(DEDUPLICATION, destination));
  const pack = [...Map.groupBy(read, ({ destination }) => keyOf(DEDUPLICATION[destination]))].map(
    ([key, kinds]) => `- ${kinds.map(({ type }) => `\`${type}\``).join(', ')}: ${key}`,
  );
  return [
    '## Deliveries that arrive twice',
    "A delivery whose answer was lost is sent again under the same id, as in each replay without `new_ids`. A destination recognizes it by that id, as the section of each type says; Segment's pack by the `message_id` (followed by `:1`, `:2`, ... for further outputs of a transformation):",
    `"Not documented": the pack sends the id, and whether the vendor drops a repetition is not said. For others of the pack nothing was read.`,
    pack.join('\n'),
  ].join('\n\n');
}

function keyOf(deduplication: (typeof DEDUPLICATION)[keyof typeof DEDUPLICATION]): string {
  if (deduplication === undefined) return 'none';
  const { key, document } = deduplication;
  return document === undefined ? `${key}; not documented` : `${key} ([source](${document}))`;
}

/** What the vendors of the pack say in an answer of 2xx. */
function answersTable(): string {
  const types = new Map<string, string[]>();
  for (const { type, destination } of DEFINITIONS) {
    const { refusals, document = '' } = VENDOR_ANSWERS[destination] ?? {};
    if (refusals === undefined) continue;
    const sources = document.split(', ').map((link) => (link === '' ? '' : `[source](${link})`));
    const answer = `${refusals} (${sources.join(', ')})`;
    types.set(answer, [...(types.get(answer) ?? []), `\`${type}\``]);
  }
  const rows = [...types].map(([answer, names]) => `- ${names.join(', ')}: ${answer}`);
  return [
    '### Answers that say "not stored"',
    `A delivery is dead by these bodies with a status of 2xx, by documents of ${VENDORS_READ_ON}:`,
    rows.join('\n'),
  ].join('\n\n');
}

function describeConnector(description: ConnectorDescription, shared: ReadonlySet<string>): string {
  const { type, title } = description;
  const settings = settingsOf(description);
  const rows = settings.filter((one) => !shared.has(lineOf(one))).map((one) => lineOf(one, one.required));
  const known = settings
    .filter((one) => shared.has(lineOf(one)))
    .map(({ name, required }) => `\`${name}\`${required ? ' (required)' : ''}`);
  const also =
    known.length === 0 ? [] : [`- [as elsewhere](#settings-of-several-types): ${known.join(', ')}`];
  const level = description.isWarehouse ? '###' : '##';
  return [`${level} ${title} (\`${type}\`)`, description.description, [...rows, ...also].join('\n')].join(
    '\n\n',
  );
}

interface Setting {
  readonly name: string;
  readonly schema: JsonObject;
  readonly required: boolean;
  readonly secret: boolean;
}

function settingsOf({ settingsSchema, secrets }: ConnectorDescription): readonly Setting[] {
  const { properties, required } = settingsSchema;
  const needed = new Set(Array.isArray(required) ? required : []);
  return Object.entries(objectIn(properties)).map(([name, schema]) => ({
    name,
    schema: objectIn(schema),
    required: needed.has(name),
    secret: secrets.includes(name),
  }));
}

function lineOf({ name, schema, secret }: Setting, required = false): string {
  const marks = [
    ...(required ? ['required'] : []),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
    ...(secret ? ['secret'] : []),
  ];
  const choices = Array.isArray(schema.enum)
    ? ` One of ${schema.enum.map((value) => `\`${value}\``).join(', ')}.`
    : '';
  return `- \`${name}\` (${[describeType(schema), ...marks].join(', ')}): ${schema.description ?? ''}${choices}`;
}

function describeType(schema: JsonObject): string {
  const { type, minimum, maximum } = schema;
  const range = minimum === undefined || maximum === undefined ? '' : `, ${minimum} to ${maximum}`;
  return `${String(type)}${range}`;
}
