import { access, constants } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Connector, ConnectorDestination, Delivery, DeliveryResult } from '@tributary/core';
import { withDeadline } from '../client/deadlines.ts';
import { deliveryJson } from '../delivery-body.ts';
import { Closed, codeOf, FolderRefused, NOT_VALID, Stopped, TimedOut, testResultOf } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { appendDurably, openFolders } from './files.ts';
import { FolderWriter } from './folder-writer.ts';
import { description, foldersOf, MAX_BATCH, readSettings } from './settings.ts';

export const ndjson: ConnectorKind = { description, create: createNdjsonConnector };

/** Enough deliveries to share an fsync, few enough to be written at once. */
const BATCH_LIMITS = { events: MAX_BATCH, bytes: 8 * 1_024 * 1_024 };

function createNdjsonConnector(context: ConnectorContext): Connector {
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
      const verdict = classifyFailure(error);
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
        const verdict = classifyFailure(error);
        if (verdict === undefined) throw error;
        return testResultOf(verdict);
      }
    },

    async close() {
      closed = true;
      await Promise.all([...writers.values()].map((writer) => writer.close()));
    },
  };
}

/** The folders of a destination; undefined where its settings are invalid. */
function partsOf({ workspaceId, settings }: ConnectorDestination): readonly string[] | undefined {
  const read = readSettings(settings);
  return read === undefined ? undefined : foldersOf(workspaceId, read);
}

const REASONS = new Map([
  ['ENOSPC', 'disk full'],
  ['EDQUOT', 'disk full'],
  ['EROFS', 'the disk is read-only'],
  ['EACCES', 'no permission to write'],
  ['EPERM', 'no permission to write'],
  ['EMFILE', 'too many open files'],
  ['ENFILE', 'too many open files'],
  ['ENOTDIR', 'a part of the folder is no folder'],
]);

/**
 * The result of a failed append. Made from error codes alone, as messages of the file system contain paths. Undefined for an
 * error without a code: it is not of the file system.
 */
export function classifyFailure(error: unknown): DeliveryResult | undefined {
  if (error instanceof FolderRefused) return { outcome: 'dead', reason: 'folder not allowed' };
  if (error instanceof TimedOut) return { outcome: 'retry', reason: 'timed out' };
  if (error instanceof Stopped || error instanceof Closed) return { outcome: 'retry', reason: 'stopped' };
  const code = codeOf(error);
  if (code === undefined) return undefined;
  return { outcome: 'retry', reason: REASONS.get(code) ?? `write failed (${code})` };
}
