import { ENVIRONMENTS, EVENT_TYPES } from '@tributary/core';
import { Type } from 'typebox';
import { type IntegerRule, integerText } from '../../http/integers.ts';
import { closed, listOf, oneOf, time } from '../../http/schemas.ts';

export const HOURS: IntegerRule = { name: 'hours', min: 1, max: 720, fallback: 24 };

export const volumeQuery = closed({
  hours: integerText(HOURS, 'How far to look back: the current hour counts as one.'),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

export const volumeRecords = listOf(
  Type.Object(
    {
      event_type: oneOf(EVENT_TYPES),
      event_name: Type.String({ description: 'Of track and page; else empty.' }),
      hour_bucket: time,
      event_count: Type.Integer(),
    },
    { title: 'EventVolume' },
  ),
  'Oldest hour first.',
);
