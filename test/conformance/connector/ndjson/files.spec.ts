import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectorCatalog, Delivery } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  connectorOf,
  createTestConnectors,
  deliveries,
  delivery,
  destination,
  type ReceivedBody,
  unhurried,
  WORKSPACE_ID,
} from '../suite/harness.ts';

describe('the ndjson connector, on the disk', () => {
  let dataFolder: string;
  let connectors: ConnectorCatalog;
  let now: number;
  beforeEach(async () => {
    now = Date.parse('2024-02-29T23:59:59.000Z');
    dataFolder = await mkdtemp(join(tmpdir(), 'tributary-ndjson-'));
    connectors = createTestConnectors({ dataFolder, clock: () => now });
  });
  afterEach(async () => {
    await connectors.close();
    await rm(dataFolder, { recursive: true, force: true });
  });

  const folder = () => join(dataFolder, 'ndjson', WORKSPACE_ID, 'orders');
  const send = (sent: readonly Delivery[], from = connectors) =>
    connectorOf(from, 'ndjson').deliver(destination({ folder: 'orders' }), sent, unhurried);
  const linesOf = async (file: string) => (await readFile(join(folder(), file), 'utf8')).split('\n');

  it('continues the file of the day after a restart', async () => {
    await send(deliveries(2));
    await connectors.close();
    connectors = createTestConnectors({ dataFolder, clock: () => now });
    await send(deliveries(2));
    expect(await readdir(folder())).toEqual(['2024-02-29-000001.ndjson']);
    expect(await linesOf('2024-02-29-000001.ndjson')).toHaveLength(5);
  });

  it('writes complete lines from two processes to one folder', async () => {
    const other = createTestConnectors({ dataFolder, clock: () => now });
    try {
      const calls = Array.from({ length: 60 }, (_, n) =>
        send(deliveries(20), n % 2 === 0 ? connectors : other),
      );
      const outcomes = (await Promise.all(calls)).flat().map(({ outcome }) => outcome);
      expect(outcomes).toEqual(Array(1_200).fill('delivered'));
      const lines = (await linesOf('2024-02-29-000001.ndjson')).filter((line) => line !== '');
      expect(new Set(lines.map((line) => (JSON.parse(line) as ReceivedBody).id)).size).toBe(1_200);
    } finally {
      await other.close();
    }
  });

  it('separates workspaces with the same folder setting', async () => {
    await send([delivery()]);
    const elsewhere = { ...destination({ folder: 'orders' }), workspaceId: 'another' };
    await connectorOf(connectors, 'ndjson').deliver(elsewhere, [delivery()], unhurried);
    expect((await readdir(join(dataFolder, 'ndjson'))).sort()).toEqual([WORKSPACE_ID, 'another'].sort());
    expect(await linesOf('2024-02-29-000001.ndjson')).toHaveLength(2);
  });

  it('refuses a workspace id that is a path to another folder', async () => {
    const place = { ...destination({ folder: 'orders' }), workspaceId: '../..' };
    const results = await connectorOf(connectors, 'ndjson').deliver(place, [delivery()], unhurried);
    expect(results).toMatchObject([{ outcome: 'dead' }]);
    expect(await readdir(dataFolder)).toEqual([]);
  });
});
