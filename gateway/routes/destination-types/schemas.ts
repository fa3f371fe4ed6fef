import { Type } from 'typebox';
import { freeObject, listOf } from '../../resources/schemas.ts';

const preset = Type.Object({
  name: Type.String({ description: 'As `presets` of the settings names it.' }),
  subscribe: Type.String({ description: 'For which events.' }),
  action: Type.String({ description: 'What is sent of them.' }),
});

export const destinationType = Type.Object(
  {
    type: Type.String({ description: '`type` of its destinations.', examples: ['webhook'] }),
    title: Type.String(),
    description: Type.String({ description: 'What its deliveries are and how it answers, in Markdown.' }),
    settings_schema: freeObject(
      'JSON Schema (draft 2020-12) of `settings`. Its properties stand in the order of a form, each with `title` and `description`; secrets are `writeOnly`.',
    ),
    secrets: listOf(
      Type.String(),
      'Settings that are sealed at rest and masked in answers: those that the schema marks `writeOnly`.',
    ),
    max_batch: Type.Integer({
      description: 'Deliveries that one request carries at most; 1: each goes alone.',
    }),
    connection_test: Type.Boolean({
      description: 'Whether the connection test asks the place; where not, it is `ok` unseen.',
    }),
    presets: listOf(preset, 'What is ready-made; empty where the type has no such parts.'),
    actions: listOf(
      Type.String(),
      'Those that `actions` of the settings may name; empty where the type has none.',
    ),
  },
  { title: 'DestinationType' },
);

export const destinationTypeList = listOf(destinationType);
