import { type Catalog, type Clock, type ConditionLimits, type HealthBoard, newId } from '@tributary/core';
import type { PipelineOptions } from '../options.ts';
import { OwnLoad } from '../own-load.ts';
import { callLimits, hasLimits } from './call-limits.ts';
import { ConditionWatch } from './condition-watch.ts';
import { Deliverer, type DelivererDependencies } from './deliverer.ts';
import { GoneDestinations } from './gone-destinations.ts';
import { HealthTeller } from './health-teller.ts';

/** What the deliverer of a process is made of. */
export interface DeliveringParts
  extends Omit<DelivererDependencies, 'overloaded' | 'limitsOf' | 'noteUse' | 'noteGone'>,
    Pick<PipelineOptions, 'maxCalls' | 'callsPerSecond'> {
  readonly catalog: Pick<Catalog, 'propose' | 'position' | 'state'>;
  readonly condition: ConditionLimits;
  readonly elapsed: Clock;
  /** Default: while the thread is hardly ever idle. */
  readonly overloaded?: (() => boolean) | undefined;
  readonly healthBoard?: HealthBoard | undefined;
}

/** The deliverer of a process, which tells how its destinations are doing and holds them to their limits. */
export function createDeliverer(parts: DeliveringParts): Deliverer {
  const { current, elapsed } = parts;
  const ownLoad = new OwnLoad(elapsed);
  const process = newId();
  const teller: HealthTeller = new HealthTeller(
    {
      ...parts,
      process,
      workspaceOf: (id) => current(id)?.workspace_id,
      isShared: (id) => hasLimits(current(id)),
    },
    () => reports(),
  );
  const reports = () => deliverer.health();
  const watch: ConditionWatch = new ConditionWatch({ ...parts, process, limits: parts.condition }, reports);
  const gone: GoneDestinations = new GoneDestinations({
    ...parts,
    reportOf: (id) => reports().find(({ destination_id }) => destination_id === id),
  });
  const deliverer = new Deliverer({
    ...parts,
    overloaded: parts.overloaded ?? (() => ownLoad.overloaded),
    limitsOf: (id) => callLimits(current(id), parts, teller.processesOf(id)),
    noteGone: (id, version) => void gone.pause(id, version),
    noteUse: () => {
      teller.begin();
      watch.begin();
    },
  });
  return deliverer;
}
