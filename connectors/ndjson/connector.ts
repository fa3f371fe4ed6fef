import { access, constants } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Connector, ConnectorDestination, Delivery, DeliveryResult } from '@tributary/core';
import { withDeadline } from '../deadline.ts';
import { deliveryJson } from '../delivery-body.ts';
import type { ConnectorContext } from '../kind.ts';
import { NOT_VALID, testedBy } from '../verdicts.ts';
import { appendDurably } from './append.ts';
import { openFolders } from './folder.ts';
import { FolderWriter } from './folder-writer.ts';
import { foldersOf, MAX_BATCH, readSettings } from './settings.ts';
import { verdictOfFailure } from './verdict.ts';

/** Deliveries one call takes: enough to share an fsync, few enough to be written in a moment. */
const BATCH_LIMITS = { events: MAX_BATCH, bytes: 8 * 1_024 * 1_024 };

export function createNdjsonConnector(context: ConnectorContext): Connector {
  const { timeoutMs, clock } = context;
  const root = resolve(context.dataFolder);
  const writers = new Map<string, FolderWriter>();
  let closed = false;

  const writerOf = (parts: readonly string[]): FolderWriter => {
    const key = parts.join('/');
    const known = writers.get(key);
    if (known !== undefined) return known;
    const writer = new FolderWriter((lines) => appendDurably(root, parts, lines, clock()));
    writers.set(key, writer);
    return writer;
  };

  const append = async (
    parts: readonly string[],
    deliveries: readonly Delivery[],
    signal: AbortSignal,
  ): Promise<DeliveryResult> => {
    if (closed) return { outcome: 'retry', reason: 'stopped' };
    const lines = deliveries.map((delivery) => `${deliveryJson(delivery)}\n`).join('');
    try {
      await withDeadline(signal, timeoutMs, (deadline) => writerOf(parts).append(lines, deadline));
      return { outcome: 'delivered' };
    } catch (error) {
      const verdict = verdictOfFailure(error);
      if (verdict === undefined) throw error;
      return verdict;
    }
  };

  return {
    batchLimits: () => BATCH_LIMITS,

    async deliver(destination, deliveries, { signal }) {
      const parts = partsOf(destination);
      if (parts === undefined) return deliveries.map(() => ({ outcome: 'dead', reason: NOT_VALID }));
      const result = await append(parts, deliveries, signal);
      return deliveries.map(() => result);
    },

    async test(destination, { signal }) {
      const parts = partsOf(destination);
      if (parts === undefined) return { ok: false, reason: NOT_VALID };
      if (closed || signal.aborted) return { ok: false, reason: 'stopped' };
      try {
        const folders = await openFolders(root, parts);
        await access(folders[folders.length - 1] ?? root, constants.W_OK | constants.X_OK);
        return { ok: true };
      } catch (error) {
        const verdict = verdictOfFailure(error);
        if (verdict === undefined) throw error;
        return testedBy(verdict);
      }
    },

    async close() {
      closed = true;
      await Promise.all([...writers.values()].map((writer) => writer.close()));
    },
  };
}

/** The folders of a destination; undefined when its settings name none. */
function partsOf({ workspaceId, settings }: ConnectorDestination): readonly string[] | undefined {
  const read = readSettings(settings);
  return read === undefined ? undefined : foldersOf(workspaceId, read);
}
