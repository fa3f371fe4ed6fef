import { ENVIRONMENTS, EVENT_TYPES, iso, type VolumeRow } from '@tributary/core';
import { Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import {
  closed,
  HOURS,
  hoursText,
  listOf,
  lookBack,
  oneOf,
  operation,
  parseInteger,
  string,
  time,
} from '../resources/schemas.ts';

const volumeQuery = closed({
  hours: hoursText,
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
});

const volumeRecords = listOf(
  Type.Object(
    {
      event_type: oneOf(EVENT_TYPES),
      event_name: string('Of track events, pages and screens; else empty.'),
      hour_bucket: time,
      event_count: Type.Integer(),
    },
    { title: 'EventVolume' },
  ),
  'Oldest hour first.',
);

function presentVolume({ eventType, eventName, hour, count }: VolumeRow) {
  return { event_type: eventType, event_name: eventName, hour_bucket: iso(hour), event_count: count };
}

/** `GET /workspaces/:workspaceId/event-volume`: accepted events by hour, type and name. */
export const volumeRoutes: Routes = async (app, { counters, clock }) => {
  app.get(
    '/workspaces/:workspaceId/event-volume',
    operation('event-volume.read', 'readEventVolume', 'Count accepted events by hour, type and name', {
      querystring: volumeQuery,
      response: { 200: volumeRecords },
    }),
    async ({ query, workspace }) => {
      const hours = parseInteger(query.hours, HOURS);
      const rows = await counters.volume({
        workspaceId: workspace.id,
        ...lookBack(clock(), hours),
        ...(query.environment === undefined ? {} : { environment: query.environment }),
      });
      return rows.map(presentVolume);
    },
  );
};
