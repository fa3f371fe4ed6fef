import { resolve } from 'node:path';
import type { Connector, Delivery, DeliveryResult } from '@tributary/core';
import { withDeadline } from '../deadline.ts';
import { deliveryBody } from '../delivery-body.ts';
import type { ConnectorContext } from '../kind.ts';
import { appendDurably } from './append.ts';
import { FolderWriter } from './folder-writer.ts';
import { foldersOf, readSettings } from './settings.ts';
import { verdictOfFailure } from './verdict.ts';

/** Deliveries one call takes: enough to share an fsync, few enough to be written in a moment. */
const BATCH_SIZE = 500;

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
    const lines = deliveries.map((delivery) => `${JSON.stringify(deliveryBody(delivery))}\n`).join('');
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
    batchSize: () => BATCH_SIZE,

    async deliver(destination, deliveries, { signal }) {
      const settings = readSettings(destination.settings);
      const parts = settings === undefined ? undefined : foldersOf(destination.workspaceId, settings);
      if (parts === undefined) {
        return deliveries.map(() => ({ outcome: 'dead', reason: 'the settings are not valid' }));
      }
      const result = await append(parts, deliveries, signal);
      return deliveries.map(() => result);
    },

    async close() {
      closed = true;
      await Promise.all([...writers.values()].map((writer) => writer.close()));
    },
  };
}
