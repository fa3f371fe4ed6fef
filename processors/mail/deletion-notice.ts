import { type DeletionNotice, InvalidInput, isUuid, type LogEntry } from '@tributary/core';
import { parseObject, timeOf } from '../entry.ts';

/**
 * The notice an entry holds. Fields are the gateway's promise; only those are checked that decide where the mail goes,
 * or whether it is the same. Throws `InvalidInput`.
 */
export function deletionNoticeOf(entry: LogEntry): DeletionNotice {
  const notice = parseObject(entry.value) as Partial<DeletionNotice>;
  if (typeof notice.id !== 'string' || !isUuid(notice.id)) throw new InvalidInput('no notice id');
  if (typeof notice.organization_id !== 'string') throw new InvalidInput('no organization');
  if (typeof notice.at !== 'string') throw new InvalidInput('no time');
  timeOf(notice.at);
  if (!Array.isArray(notice.regions) || typeof notice.counts !== 'object')
    throw new InvalidInput('no counts');
  return notice as DeletionNotice;
}
