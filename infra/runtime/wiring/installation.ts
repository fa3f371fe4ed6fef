import {
  type Catalog,
  type EventLog,
  iso,
  type Logger,
  messageOf,
  newId,
  type StoreMark,
  TOPIC,
  TributaryError,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { catchUp, type StartDeadline, untilAvailable } from '../process/await-engines.ts';
import { refuseUnfinishedMove } from '../process/data-folder.ts';
import { CleanupStack } from '../process/lifecycle.ts';
import { receivedTopics } from './ports/event-log.ts';
import { openStoreMarks, type StoreMarks } from './ports/stores.ts';

const RETRY_EVERY_MS = 2_000;

/** A store belongs to another installation, so no process of this one may use it. */
export class ForeignStore extends TributaryError {
  readonly code = 'foreign_store';
  readonly retryable = false;
}

export interface InstallationTools {
  readonly catalog: Catalog;
  readonly log: Pick<EventLog, 'topics' | 'end'>;
  readonly logger: Logger;
}

/**
 * The id of the installation in the catalog, created if there is none: in a catalog that an older release began as one of that
 * release, which can still be gone back to. `ForeignStore` if the catalog is new and there is data already, which only another
 * installation can have written; `takeAll` skips that check.
 */
export async function installationOf(
  config: Config,
  tools: InstallationTools,
  marks: StoreMarks,
  deadline: StartDeadline,
  takeAll = false,
): Promise<string> {
  const { catalog, log } = tools;
  await catchUp(catalog, deadline);
  const known = catalog.state.installation;
  if (known !== undefined) return known;
  if (!takeAll && catalog.state.organizationCount === 0) {
    const storeWithData = await untilAvailable('looking for data of another installation', deadline, () =>
      firstStoreWithData(config, log, marks.profiles),
    );
    // Another process may have created the id meanwhile, and accepted events since.
    await catchUp(catalog, deadline);
    const named = catalog.state.installation;
    if (named !== undefined) return named;
    if (storeWithData !== undefined && catalog.state.organizationCount === 0)
      throw new ForeignStore(
        `${storeWithData}, although the catalog is new: they belong to another installation, or this one has lost its catalog. Start on empty engines or with another TRIBUTARY_PREFIX; to use this data all the same, run \`tributary adopt-stores --from none\``,
      );
  }
  const isNew = catalog.state.organizationCount === 0;
  return nameInstallation(catalog, deadline, 'operator:start', isNew ? PRESENT : BEFORE);
}

/** Versions of the fact that names an installation: processes of 0.2.0 stop at the present one. */
const PRESENT = 2;
const BEFORE = 1;

/**
 * Writes an installation id to the catalog, or that the known one is of this release. Of several that are proposed at once, the
 * first is the one for all.
 */
export async function nameInstallation(
  catalog: Catalog,
  deadline: StartDeadline,
  by: string,
  v: typeof PRESENT | typeof BEFORE = PRESENT,
): Promise<string> {
  const id = catalog.state.installation ?? newId();
  await untilAvailable('naming the installation', deadline, () =>
    catalog.propose({
      v,
      type: 'installation.created',
      entity: id,
      data: {},
      by,
      from: { address: '', request_id: '' },
      at: iso(Date.now()),
    }),
  );
  return catalog.state.installation ?? id;
}

/** Describes the first store with data that cannot exist without an organization in the catalog. */
async function firstStoreWithData(
  config: Config,
  log: Pick<EventLog, 'topics' | 'end'>,
  profiles: StoreMark,
): Promise<string | undefined> {
  for (const topic of [...receivedTopics(config), TOPIC.accepted, TOPIC.profileChanges])
    for (let partition = 0; partition < (log.topics.get(topic)?.partitions ?? 0); partition++)
      if ((await log.end(topic, partition)) > 0) return `the topic ${config.prefix}${topic} has records`;
  return (await profiles.holdsProfiles?.()) === true ? `${profiles.store} has profiles` : undefined;
}

/** A check, partly still running, that the stores of a process belong to its installation. */
export interface StoresCheck {
  /** Rejects with `ForeignStore` if an engine that did not answer at first belongs to another installation. */
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/**
 * Marks stores without a mark with the id of this installation, and checks the others: `ForeignStore` before a store of
 * another installation is used. A start does not wait for engines that do not answer; they are checked once they do.
 * `openProfiles` is called after the store of the profiles was checked.
 */
export async function checkStores(
  config: Config,
  tools: InstallationTools,
  deadline: StartDeadline,
  openProfiles: () => Promise<void>,
): Promise<StoresCheck> {
  const cleanup = new CleanupStack();
  try {
    const { catalog, logger } = tools;
    const onProfilesCreated = (index: string) => {
      if (catalog.state.organizationCount > 0)
        logger.error(
          { index },
          'the index of the profiles was missing although there are organizations; an empty one was created: if it held profiles, stop all processes, delete it and restore a snapshot',
        );
    };
    const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark), onProfilesCreated);
    await refuseUnfinishedMove([marks.profiles, ...marks.others]);
    const id = await installationOf(config, tools, marks, deadline);
    if (!catalog.state.isUpgraded)
      logger.warn(
        {},
        'the catalog was begun by an older release, which can still be gone back to: large events are copied for each delivery until `tributary upgrade` has been run, once no process of that release is left',
      );
    const steps = [
      ...marks.others.map((mark) => ({ mark, use: async () => {} })),
      { mark: marks.profiles, use: openProfiles },
    ];
    const left = await checkAll(steps, id, logger);
    return checkLater(left, id, logger, cleanup);
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

interface Step {
  readonly mark: StoreMark;
  /** Called once the store is known to belong to this installation. */
  readonly use: () => Promise<void>;
}

/** Reports all foreign stores in one error. Returns the steps whose engine does not answer. */
async function checkAll(steps: readonly Step[], id: string, logger: Logger): Promise<readonly Step[]> {
  const left: Step[] = [];
  const own: Step[] = [];
  const foreign: string[] = [];
  for (const step of steps)
    try {
      const found = await step.mark.claim(id);
      if (found === id) own.push(step);
      else foreign.push(foreignText(step.mark.store, found, id));
    } catch (error) {
      if (!(error instanceof TributaryError) || !error.retryable) throw error;
      left.push(step);
      logger.warn(
        { store: step.mark.store, error: messageOf(error) },
        'the store could not be checked yet; retrying',
      );
    }
  if (foreign.length > 0) throw new ForeignStore(foreign.join('; '));
  for (const { use } of own) await use();
  return left;
}

function foreignText(store: string, found: string, id: string): string {
  return `${store} belongs to the installation ${found} and the catalog is of ${id}: check the addresses and TRIBUTARY_PREFIX; to give the store with all its data to this installation, run \`tributary adopt-stores --from ${found}\``;
}

function checkLater(steps: readonly Step[], id: string, logger: Logger, cleanup: CleanupStack): StoresCheck {
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {}); // handled by the caller, perhaps later
  let left = steps;
  let timer: NodeJS.Timeout | undefined;
  let checking: Promise<void> = Promise.resolve();
  let isClosed = false;
  const again = () => {
    if (left.length === 0 || isClosed) return;
    timer = setTimeout(() => {
      checking = checkAll(left, id, logger)
        .then((rest) => {
          left = rest;
          again();
        })
        .catch(failed.reject);
    }, RETRY_EVERY_MS).unref();
  };
  again();
  return {
    failed: failed.promise,
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await checking;
      await cleanup.close();
    },
  };
}
