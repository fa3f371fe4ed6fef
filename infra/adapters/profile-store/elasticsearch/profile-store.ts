import { setTimeout as pause } from 'node:timers/promises';
import {
  type Clock,
  type Logger,
  messageOf,
  newId,
  type ProfileStore,
  type PublishProfileChanges,
} from '@tributary/core';
import { type ElasticsearchAccess, ElasticsearchConnection, indexPrefix } from '../../elasticsearch/index.ts';
import { DocumentProfileStore } from './document-store.ts';
import { ElasticsearchDocuments } from './node-documents.ts';

const SWEEP_EVERY_MS = 5_000;

export interface ElasticsearchProfileStoreOptions {
  readonly access: ElasticsearchAccess;
  /** Tells the indices of installations apart that share a cluster. */
  readonly prefix: string;
  readonly clock: Clock;
  /** A deleted identity remembers when for so long, ms. */
  readonly retentionMs: number;
  readonly publish: PublishProfileChanges;
  readonly logger: Logger;
  /** Primary shards of the index, where this is the one to make it. Default 1. */
  readonly shards?: number;
  /** How long a call of the engine may take, ms, before it is `Unavailable`. Default 10,000. */
  readonly timeoutMs?: number;
  /** How often what others left half done is completed, ms, beginning at once. Default 5,000. */
  readonly sweepEveryMs?: number;
}

/**
 * A `ProfileStore` in Elasticsearch: one index, documents read by their names and compared-and-set, nothing searched but
 * by the sweeper. `InvalidInput` where the credentials are wrong; a cluster that does not answer yet makes calls
 * `Unavailable` until it does.
 */
export async function openElasticsearchProfileStore(
  options: ElasticsearchProfileStoreOptions,
): Promise<ProfileStore> {
  const { access, prefix, clock, retentionMs, publish, logger, shards = 1, timeoutMs } = options;
  const connection = await ElasticsearchConnection.open({
    access,
    logger,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  const store = new DocumentProfileStore({
    documents: new ElasticsearchDocuments(connection, { alias: `${indexPrefix(prefix)}profiles`, shards }, logger),
    publish,
    clock,
    pause: (ms) => pause(ms),
    random: Math.random,
    newUcid: newId,
    logger,
    retentionMs,
  });
  const sweeping = sweepEvery(options.sweepEveryMs ?? SWEEP_EVERY_MS, store, logger);
  let closed: Promise<void> | undefined;
  return {
    upsert: (write) => store.upsert(write),
    search: (search) => store.search(search),
    delete: (deletion) => store.delete(deletion),
    unlink: (unlink) => store.unlink(unlink),
    split: (split) => store.split(split),
    holdsProfiles: (scope) => store.holdsProfiles(scope),
    close() {
      closed ??= sweeping
        .stop()
        .then(() => store.close())
        .then(() => connection.close());
      return closed;
    },
  };
}

/** One sweep after the other; one that fails is told and tried again. */
function sweepEvery(everyMs: number, store: DocumentProfileStore, logger: Logger): { stop(): Promise<void> } {
  let stopped = false;
  let sweeping: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const sweep = () => {
    sweeping = store
      .sweep()
      .catch((error) => logger.debug({ error: messageOf(error) }, 'profiles could not be swept'))
      .finally(() => {
        if (!stopped) timer = setTimeout(sweep, everyMs).unref();
      });
  };
  sweep();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      return sweeping;
    },
  };
}
