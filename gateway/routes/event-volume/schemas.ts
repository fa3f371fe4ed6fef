import { ENVIRONMENTS, EVENT_TYPES } from '@tributary/core';
import { Type } from 'typebox';
import { closed, listOf, oneOf, time } from '../../resources/schemas.ts';
import { hoursText } from '../../resources/values.ts';

export const volumeQuery = closed({
  hours: hoursText,
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
