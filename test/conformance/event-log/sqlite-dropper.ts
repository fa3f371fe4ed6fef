/**
 * A process that drops records of an embedded log, for its suite: `sqlite-dropper.ts <folder> <offset> <step> <time>`.
 * It kills itself right after the step came for that time.
 */
import { declareTopics, NO_LOGGER, NO_METRICS, TOPIC } from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra/adapters/event-log/sqlite';

export const TOPICS = declareTopics({ partitions: 1, retentionMs: 60_000, retryLabels: [], dedicated: [] });

if (process.argv[1] === import.meta.filename) {
  const [folder = '', offset = '', last = '', time = ''] = process.argv.slice(2);
  let times = 0;
  const log = await openSqliteEventLog({
    folder,
    topics: TOPICS,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    dropped: (step) => {
      if (step !== last) return;
      times++;
      if (times === Number(time)) process.kill(process.pid, 'SIGKILL');
    },
  });
  await log.dropBelow(TOPIC.catalog, 0, Number(offset));
  await log.close();
}
