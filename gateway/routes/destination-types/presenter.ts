import type { ConnectorDescription } from '@tributary/core';
import type { Static } from 'typebox';
import type { destinationType } from './schemas.ts';

export function presentType(description: ConnectorDescription): Static<typeof destinationType> {
  return {
    type: description.type,
    title: description.title,
    description: description.description,
    settings_schema: description.settingsSchema,
    secrets: description.secrets,
    max_batch: description.maxBatch,
    connection_test: description.hasTest,
    presets: description.presets ?? [],
    actions: description.actions ?? [],
  };
}
