import { ENVIRONMENTS, EVENT_TYPES } from '@tributary/core';
import { Type } from 'typebox';
import { closed, listOf, oneOf, time } from '../../http/schemas.ts';

export const volumeQuery = closed({
  hours: Type.Optional(
    Type.String({
      description: 'How far to look back, 1 to 720: the current hour counts as one. Default 24.',
    }),
  ),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

export const volumeRecords = listOf(
  Type.Object({
    event_type: oneOf(EVENT_TYPES),
    event_name: Type.String({ description: 'Of track and page; else empty.' }),
    hour_bucket: time,
    event_count: Type.Integer(),
  }),
  'Oldest hour first.',
);
