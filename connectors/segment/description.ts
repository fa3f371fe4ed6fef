import type { ConnectorDescription } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import type { Definition } from './define.ts';
import { mappingFaults } from './mapping-faults.ts';
import { settingsSchemaOf } from './settings.ts';

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
    ].join('\n\n'),
    settingsSchema,
    secrets: secretNames(settingsSchema),
    check: mappingFaults,
  };
}
