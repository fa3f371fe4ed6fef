import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * The files that take longest, in that order. Without results of earlier runs, as in CI, Vitest starts with
 * the largest files. The conformance suite of an adapter has five lines, came last, and delayed the end of
 * the run. A file missing here costs only time.
 */
const LONGEST: readonly string[] = [
  'test/conformance/event-log/kafka/conformance.long-alone.spec.ts',
  'test/conformance/event-log/sqlite/conformance.long-alone.spec.ts',
  'test/guides/guides.spec.ts',
  'test/flows/profiles/profiles-by-events.spec.ts',
  'test/runtime/move/move.long.spec.ts',
  'test/console/hostile-data.spec.ts',
  'test/runtime/cluster/roles.spec.ts',
  'test/flows/recovery/kill-and-restart.spec.ts',
  'test/conformance/profile-store/elasticsearch/conformance.spec.ts',
  'test/conformance/sandbox/isolated-vm/workers.spec.ts',
  'test/conformance/profile-store/sqlite/conformance.spec.ts',
  'test/gateway/destinations/destination-tests.spec.ts',
  'test/runtime/commands/catalog-rewrite.spec.ts',
  'test/conformance/catalog/log/rewrite.spec.ts',
  'test/flows/contracts/replays.spec.ts',
  'test/flows/events/first-event.cluster.spec.ts',
  'test/conformance/history/elasticsearch/conformance.spec.ts',
  'test/gateway/events/events-live.spec.ts',
  'test/conformance/catalog/log/conformance.spec.ts',
  'test/conformance/deduplicator/redis/conformance.spec.ts',
  'test/runtime/commands/first-minutes.spec.ts',
  'test/runtime/commands/dev.spec.ts',
  'connectors/segment/pack.spec.ts',
];

const rankOf = ({ project, moduleId }: TestSpecification): number => {
  const rank = LONGEST.indexOf(relative(project.vitest.config.root, moduleId));
  return rank === -1 ? LONGEST.length : rank;
};

/**
 * Vitest's own order, but with the longest files of each project first, so that the run does not end with one
 * of them alone.
 */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const byProject = Map.groupBy(await super.sort(files), ({ project }) => project.name);
    return [...byProject.values()].flatMap((ofOne) => ofOne.toSorted((a, b) => rankOf(a) - rankOf(b)));
  }
}
