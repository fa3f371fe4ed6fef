import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { openEntries, pathsIn, temporaryFolder } from '../../helpers/folder.ts';
import type { Tributary } from '../../helpers/running-tributary.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

/** As another user, prints the readable paths of a folder, and one that can be created. */
const INTRUDER = `
  const { readdirSync, readFileSync, writeFileSync } = require('node:fs');
  const [folder, ...paths] = process.argv.slice(1);
  const tries = [
    ['list', folder, () => readdirSync(folder)],
    ['make', folder, () => writeFileSync(folder + '/of-nobody', '')],
    ...paths.map((path) => ['read', path, () => readFileSync(path)]),
  ];
  for (const [what, path, act] of tries)
    try { act(); console.log(what, path); } catch (error) {
      if (!['EACCES', 'EPERM'].includes(error.code)) console.log(what, path, error.code);
    }
`;

describe('the data folder', () => {
  let parent: Awaited<ReturnType<typeof temporaryFolder>>;
  let folder = '';
  let tributary: Tributary;
  const files = () => join(folder, 'ndjson', tributary.workspaceId, 'kept');
  const deliver = async () => {
    const before = existsSync(files()) ? readdirSync(files()).length : 0;
    await tributary.producer.post('./events/track', { event: 'Paid', user_id: 'u' });
    await eventually(
      () => (existsSync(files()) ? readdirSync(files()).length : 0),
      (count) => count > 0 && count >= before,
    );
  };

  beforeAll(async () => {
    parent = await temporaryFolder();
    // The parent may be traversed by any user, so only the data folder itself can keep them out.
    chmodSync(parent.path, 0o755);
    folder = join(parent.path, 'data');
    mkdirSync(join(folder, 'history'), { recursive: true, mode: 0o777 });
    writeFileSync(join(folder, 'history', 'left-over.db'), '', { mode: 0o644 });
    chmodSync(folder, 0o755);
    tributary = await startEmbedded(folder, {});
    const { id } = await tributary.owner.post<{ id: string }>('./destinations', {
      name: 'Files',
      type: 'ndjson',
      settings: { folder: 'kept' },
    });
    await tributary.owner.post('./event-forwarding-rules', {
      name: 'all',
      destination_id: id,
      event_types: [],
      event_names: [],
      transformation_id: null,
      enabled: true,
    });
    await deliver();
  });
  afterAll(async () => {
    await tributary.kill();
    await parent.remove();
  });

  it('was readable by every user of the machine: the folder is closed, and the log reports it', () => {
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const lines = tributary
      .log()
      .split('\n')
      .filter((line) => line.includes('had access to the data folder'));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('0755');
  });

  it.skipIf(!isRoot)('was read by another user: keys, events, profiles and files of destinations', () => {
    const paths = pathsIn(folder);
    for (const name of [
      'secret-keys.json',
      'dev-issuer.json',
      'quickstart.json',
      'profiles',
      'log',
      'ndjson',
    ])
      expect(paths).toContain(join(folder, name));
    const intruder = spawnSync(process.execPath, ['-e', INTRUDER, folder, ...paths], {
      uid: NOBODY,
      gid: NOBODY,
      cwd: '/',
      env: {},
      encoding: 'utf8',
    });
    expect([intruder.status, intruder.stderr, intruder.stdout]).toEqual([0, '', '']);
  });

  it('was readable again after a kill and a restart', async () => {
    await tributary.kill();
    const before = [join(folder, 'history'), join(folder, 'history', 'left-over.db')];
    tributary = await startEmbedded(folder, {});
    await deliver();
    const open = openEntries(folder).filter((entry) => !before.some((path) => entry.includes(path)));
    expect(open).toEqual([]);
    expect(tributary.log()).not.toContain('had access to the data folder');
    // A new file of the data folder must be listed in DATA_ENTRIES, or the folder counts as one of other
    // programs.
    expect(tributary.log()).not.toContain('holds files of other programs');
  });
});
