import { type CanonicalEvent, eventName, HEADER, type LogEntry, type Replay } from '@tributary/core';

/** Whether the filters of a replay, all but its times, take an event by the headers of its entry. */
export function takesHeaders(
  { workspace_id, environments, contract_id }: Replay,
  { headers }: LogEntry,
): boolean {
  if (headers[HEADER.workspaceId] !== workspace_id) return false;
  if (contract_id !== undefined && headers[HEADER.contractId] !== contract_id) return false;
  return isIn(environments, headers[HEADER.environment]);
}

/** The same by the event itself. */
export function takesEvent({ event_types, event_names, source_id }: Replay, event: CanonicalEvent): boolean {
  if (!isIn(event_types, event.type)) return false;
  if (source_id !== undefined && event.source_id !== source_id) return false;
  const isNamed = event.type === 'track' || event.type === 'page';
  return isIn(event_names, isNamed ? eventName(event) : undefined);
}

/** An empty list leaves nothing out. */
function isIn(list: readonly string[] = [], value: string | undefined): boolean {
  return list.length === 0 || (value !== undefined && list.includes(value));
}
