import type { Clock, HealthBoard, HealthReport } from '@tributary/core';

/** How often it is told how destinations are doing, ms. */
export const TELL_EVERY_MS = 5_000;
/** A process that has told nothing for so long has left the others its part of a destination's limits, ms. */
const GONE_AFTER_MS = 3 * TELL_EVERY_MS;

/** What all processes that have not gone tell of the destinations of these reports. `Unavailable` as the board. */
export async function liveReports(
  board: Pick<HealthBoard, 'read'>,
  about: readonly HealthReport[],
  clock: Clock,
): Promise<readonly HealthReport[]> {
  const live: HealthReport[] = [];
  for (const [workspaceId, reports] of Map.groupBy(about, ({ workspace_id }) => workspace_id)) {
    const told = await board.read(
      workspaceId,
      reports.map(({ destination_id }) => destination_id),
    );
    live.push(...told.filter(({ at }) => at > clock() - GONE_AFTER_MS));
  }
  return live;
}
