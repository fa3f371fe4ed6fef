import type { Catalog } from '../catalog/catalog.ts';
import type { EventLog } from '../log/event-log.ts';
import { HEADER } from '../log/headers.ts';
import { TOPIC } from '../log/topics.ts';
import type { RequestDeletionNotice } from '../profiles/deletion-notice.ts';

/** Queues notices on the log, from where the `mail` stage sends them; it drops one that was queued twice. */
export function queueDeletionNotices(
  log: Pick<EventLog, 'append'>,
  catalog: Pick<Catalog, 'position'>,
): RequestDeletionNotice {
  return async (notice) => {
    const headers = { [HEADER.catalogPosition]: String(catalog.position) };
    await log.append(TOPIC.mail, [{ key: notice.organization_id, value: JSON.stringify(notice), headers }]);
  };
}
