import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS, type ProfileChange } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { readConfig } from '../../config/config.ts';
import { openProfileStore } from './profile-store.ts';

it('keeps profiles in the data folder, and hands their changes over', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const config = readConfig({ TRIBUTARY_DATA_DIR: folder });
  const changes: ProfileChange[] = [];
  const tools = {
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    publish: async (some: readonly ProfileChange[]) => void changes.push(...some),
  };
  const identities = [{ type: 'email', value: 'a@example.com' }];
  const first = await openProfileStore(config, tools);
  const written = await first.upsert({
    org: 1,
    region: 'eu',
    identities,
    attributes: [],
    preferences: [],
    consents: [],
    linking: 'merge',
  });
  const profile = written.kind === 'written' ? written.profile : undefined;
  await expect.poll(() => changes.map(({ kind }) => kind)).toEqual(['written']);
  await first.close();
  const second = await openProfileStore(config, tools);
  onTestFinished(() => second.close());
  expect(await second.search({ org: 1, regions: ['eu'], identities, ucids: [] })).toEqual([profile]);
});
