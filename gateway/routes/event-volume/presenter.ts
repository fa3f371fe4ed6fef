import { iso, type VolumeRow } from '@tributary/core';

export function presentVolume({ eventType, eventName, hour, count }: VolumeRow) {
  return { event_type: eventType, event_name: eventName, hour_bucket: iso(hour), event_count: count };
}
