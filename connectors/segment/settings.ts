import type { JsonObject } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { createSettingsReader } from '../settings-reader.ts';
import type { Definition } from './definition.ts';
import { mappingFaults } from './mapping-faults.ts';
import type { Subscription } from './messages.ts';

/** What a user writes: the destination's own settings, and which of its actions run when. */
export function settingsSchemaOf({ properties, required, presets, actions }: Definition): JsonObject {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: [...required],
    additionalProperties: false,
    properties: {
      ...properties,
      presets: {
        type: 'array',
        title: 'Presets',
        description: 'The presets that run, each for the events it is made for. Absent: all of them.',
        items: { type: 'string', enum: presets.map(({ name }) => name) },
        uniqueItems: true,
      },
      actions: {
        type: 'array',
        title: 'Actions',
        description:
          'Further actions of the destination, each with a mapping of your own: `{ "action", "subscribe", "mapping" }`. `subscribe` says for which events, for example `type = "track" and event = "Order Placed"`; `mapping` is in the form of Segment\'s mapping kit.',
        maxItems: 50,
        items: {
          type: 'object',
          required: ['action', 'subscribe'],
          additionalProperties: false,
          properties: {
            action: { type: 'string', enum: [...actions] },
            subscribe: { type: 'string', minLength: 1, maxLength: 2_000 },
            mapping: { type: 'object' },
          },
        },
      },
    },
  };
}

interface StatedSettings {
  readonly presets?: readonly string[];
  readonly actions?: readonly {
    readonly action: string;
    readonly subscribe: string;
    readonly mapping?: JsonObject;
  }[];
  readonly [name: string]: unknown;
}

/** The same as the connector reads it. */
export interface SegmentSettings {
  /** As the pack knows them. */
  readonly own: JsonObject;
  /** Names of presets; undefined: all. */
  readonly presets: readonly string[] | undefined;
  readonly actions: readonly Subscription[];
  /** What must not be shown. */
  readonly secrets: readonly string[];
}

export function createSegmentReader(
  definition: Definition,
): (settings: JsonObject) => SegmentSettings | undefined {
  const schema = settingsSchemaOf(definition);
  const read = createSettingsReader<StatedSettings & JsonObject>(schema, mappingFaults);
  const secretFields = secretNames(schema);
  return (settings) => {
    const stated = read(settings);
    if (stated === undefined) return undefined;
    const { presets, actions = [], ...own } = stated;
    return {
      own,
      presets,
      actions: actions.map(({ action, subscribe, mapping = {} }) => ({
        name: action,
        subscribe,
        partnerAction: action,
        mapping,
      })),
      secrets: secretFields.map((name) => String(own[name] ?? '')).filter((text) => text !== ''),
    };
  };
}
