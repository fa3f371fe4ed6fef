import { type ConnectorDescription, namesParty } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import type { Definition } from './definition.ts';
import { mappingFaults } from './mapping-faults.ts';
import { settingsSchemaOf } from './settings.ts';

/** Settings of the pack that choose between hosts of a vendor, by the pack's own names. */
const HOST_SETTINGS = ['endpoint', 'accountRegion', 'apiRegion', 'dataCenterLocation'];

const NO_TEST =
  'The pack has no way to ask it whether the settings are good: the connection test is `ok` unseen, and the first delivery tells.';

export function describeDestination(definition: Definition): ConnectorDescription {
  const { type, title, presets } = definition;
  const settingsSchema = settingsSchemaOf(definition);
  const rows = presets.map(({ name, subscribe, action }) => `- ${name} (\`${action}\`): \`${subscribe}\``);
  return {
    type,
    title: `${title} (Segment)`,
    description: [
      `Sends each event to ${title} by its destination in Segment's pack of actions (\`@segment/action-destinations\`), see [Destinations of the Segment pack](#destinations-of-the-segment-pack). Its presets:`,
      rows.join('\n'),
      ...(definition.hasTest ? [] : [NO_TEST]),
    ].join('\n\n'),
    settingsSchema,
    secrets: secretNames(settingsSchema),
    exposing: namesParty(...HOST_SETTINGS.filter((name) => Object.hasOwn(definition.properties, name))),
    maxBatch: 1,
    hasTest: definition.hasTest,
    presets,
    actions: definition.actions,
    check: mappingFaults,
  };
}
