import { ENVIRONMENTS, EVENT_TYPES } from '@tributary/core';
import { Type } from 'typebox';
import { hoursText } from '../../http/hours.ts';
import { closed, listOf, oneOf, time } from '../../http/schemas.ts';

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
