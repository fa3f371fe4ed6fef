import {
  iso,
  type PartitionLag,
  PROCESS_SILENT_AFTER_MS,
  type ProcessReport,
  permissionOf,
  type StageStatus,
  type SystemSnapshot,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { isOperator, wrongKind } from '../authentication/caller.ts';
import type { Routes } from '../dependencies.ts';
import { permissionDenied } from '../errors/api-error.ts';
import {
  boolean,
  closed,
  integer,
  listOf,
  nullable,
  number,
  oneOf,
  operation,
  shownAs,
  string,
  time,
  uuid,
} from '../resources/schemas.ts';

const perSecond = (description: string) => nullable(number(description));

const partitionResource = Type.Object(
  {
    partition: Type.Integer(),
    position: integer('Offset below which the stage has done all records.'),
    end: integer('Offset of the next record.'),
    lag: integer('Records that are left.'),
    oldest_at: nullable(time),
    process: nullable(string('The process that owns it, as far as one reports it.')),
  },
  { title: 'StagePartition' },
);

const stageResource = Type.Object(
  {
    stage: Type.String({ examples: ['deliver'] }),
    members: nullable(integer('Processes in its consumer group; null where the log has no groups.')),
    lag_records: integer('Without topics whose records wait on purpose.'),
    lag_seconds: nullable(number('Age of the oldest of them.')),
    arrival_per_second: perSecond('Records that come; null until there are two samples.'),
    drain_per_second: perSecond('Records that are done.'),
    seconds_to_empty: perSecond('Until the lag is gone; null also where it does not shrink.'),
    wanted_processes: nullable(integer('Processes with which it keeps up.')),
    topics: listOf(
      Type.Object({
        topic: Type.String(),
        lag_records: Type.Integer(),
        oldest_at: nullable(time),
        partitions: listOf(partitionResource),
      }),
    ),
  },
  { title: 'StageStatus' },
);

const engineFields = {
  engine: Type.String({ examples: ['redis'] }),
  version: nullable(
    Type.String({ description: 'As the engine names it. Kafka’s protocol does not.', examples: ['7.4.1'] }),
  ),
  state: string('`answers`, or what is wrong.'),
};

const processResource = Type.Object(
  {
    process: string('A new one at each start.', 'uuid'),
    role: Type.String({ examples: ['processor'] }),
    host: Type.String(),
    pid: Type.Integer(),
    version: Type.String(),
    commit: nullable(Type.String()),
    node: string('The version of Node.'),
    started_at: time,
    reported_at: time,
    state: oneOf(
      ['ready', 'not ready', 'silent'],
      `Silent: without a report for ${PROCESS_SILENT_AFTER_MS / 1_000} s, so it is cut off or has ended without a word.`,
    ),
    checks: Type.Unsafe<Readonly<Record<string, string>>>({
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'The state of each part, as `/readyz` of the admin port shows it.',
    }),
    memory_bytes: integer('Memory that it holds.'),
    stages: listOf(
      Type.Object({
        stage: Type.String(),
        topics: listOf(Type.Object({ topic: Type.String(), partitions: listOf(Type.Integer()) })),
      }),
      'The stages it runs, with the partitions that it owns.',
    ),
  },
  { title: 'Process' },
);

const systemResource = Type.Object(
  {
    at: time,
    versions: listOf(
      Type.Object({ version: Type.String(), commit: nullable(Type.String()), processes: Type.Integer() }),
      'What the processes run, those that are not silent.',
    ),
    stages: listOf(stageResource),
    processes: listOf(
      processResource,
      'Those that share a board: Redis, or without it the data folder. The oldest first.',
    ),
    engines: listOf(
      Type.Object({
        ...engineFields,
        state: string('`answers`, or what one of the processes finds wrong.'),
        processes: listOf(Type.Object({ process: uuid, state: engineFields.state })),
      }),
    ),
  },
  { title: 'System' },
);

type System = Static<typeof systemResource>;

export function presentSystem({ at, stages, processes }: SystemSnapshot): System {
  const present = processes.filter((one) => stateOf(one, at) !== 'silent');
  const owners = new Map(
    present.flatMap(({ process, stages }) =>
      stages.flatMap(({ stage, topics }) =>
        topics.flatMap(({ topic, partitions }) =>
          partitions.map((partition) => [`${stage} ${topic}/${partition}`, process] as const),
        ),
      ),
    ),
  );
  const builds = Map.groupBy(present, ({ version, commit }) => `${version} ${commit}`);
  return {
    at: iso(at),
    versions: [...builds.values()].map((of) => ({
      version: of[0]?.version ?? '',
      commit: of[0]?.commit ?? null,
      processes: of.length,
    })),
    stages: stages.map((status) => presentStage(status, owners)),
    processes: processes
      .toSorted((a, b) => a.started_at - b.started_at)
      .map((one) => presentProcess(one, at)),
    engines: enginesOf(present),
  };
}

function presentStage({ stage, sample, load }: StageStatus, owners: ReadonlyMap<string, string>) {
  const { secondsToEmpty } = load;
  return {
    stage,
    members: sample.members ?? null,
    lag_records: load.lagRecords,
    lag_seconds: rounded(load.lagSeconds),
    arrival_per_second: rounded(load.arrivalPerSecond),
    drain_per_second: rounded(load.drainPerSecond),
    seconds_to_empty: Number.isFinite(secondsToEmpty) ? rounded(secondsToEmpty) : null,
    wanted_processes: load.wantedProcesses ?? null,
    topics: [...Map.groupBy(sample.partitions, ({ topic }) => topic)].map(([topic, of]) => ({
      topic,
      lag_records: of.reduce((sum, { lag }) => sum + lag, 0),
      oldest_at: oldestOf(of),
      partitions: of.map(({ partition, position, end, lag, oldestAt }) => ({
        partition,
        position,
        end,
        lag,
        oldest_at: oldestAt === undefined ? null : iso(oldestAt),
        process: owners.get(`${stage} ${topic}/${partition}`) ?? null,
      })),
    })),
  };
}

function presentProcess(report: ProcessReport, now: number): System['processes'][number] {
  return shownAs(processResource, report, {
    started_at: iso(report.started_at),
    reported_at: iso(report.at),
    state: stateOf(report, now),
  });
}

function stateOf({ at, ready }: ProcessReport, now: number): System['processes'][number]['state'] {
  if (now - at > PROCESS_SILENT_AFTER_MS) return 'silent';
  return ready ? 'ready' : 'not ready';
}

/** An engine is as healthy as the process that has the most trouble with it finds it. */
function enginesOf(processes: readonly ProcessReport[]): System['engines'] {
  const seen = processes.flatMap(({ process, engines }) => engines.map((each) => ({ ...each, process })));
  return [...Map.groupBy(seen, ({ engine }) => engine)].map(([engine, by]) => ({
    engine,
    version: by.find(({ version }) => version !== null)?.version ?? null,
    state: (by.find(({ state }) => state !== 'answers') ?? by[0])?.state ?? 'answers',
    processes: by.map(({ process, state }) => ({ process, state })),
  }));
}

function oldestOf(partitions: readonly PartitionLag[]): string | null {
  const times = partitions.flatMap(({ oldestAt }) => (oldestAt === undefined ? [] : [oldestAt]));
  return times.length === 0 ? null : iso(Math.min(...times));
}

/** To a tenth; null for what is not known. */
function rounded(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : Math.round(value * 10) / 10;
}

/** `GET /system`: stages, processes and engines of all tenants, for operators alone. */
export const systemRoutes: Routes = async (app, { system }) => {
  app.get(
    '/system',
    operation('system.read', 'readSystem', 'Read how the installation is, as an operator', {
      querystring: closed({}),
      response: { 200: systemResource },
    }),
    async () => presentSystem(await system.read()),
  );
};

const meResource = Type.Object(
  {
    account_id: uuid,
    email: nullable(string('The address that the issuer verified.')),
    operator: boolean('Whether `GET /system` is for the caller.'),
  },
  { title: 'Me' },
);

/** `GET /me`: the account of the caller. Roles are in the lists of organizations and workspaces. */
export const meRoutes: Routes = async (app, { operators }) => {
  app.get(
    '/me',
    operation('me.read', 'readMe', 'Read who the caller is', {
      querystring: closed({}),
      response: { 200: meResource },
    }),
    async ({ caller }) => {
      if (caller.kind !== 'id_token') throw permissionDenied(wrongKind(caller, permissionOf('me.read')));
      const { id, email } = caller.account;
      return { account_id: id, email, operator: isOperator(caller, operators) };
    },
  );
};
