import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
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
    mkdirSync(join(folder, 'history'), { recursive: true });
    writeFileSync(join(folder, 'history', 'left-over.db'), '');
    for (const [name, mode] of [
      ['', 0o755],
      ['history', 0o777],
      ['history/left-over.db', 0o644],
    ] as const)
      chmodSync(join(folder, name), mode);
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

  it('was readable by every user of the machine: existing files are corrected, and the log reports it', () => {
    expect(openEntries(folder)).toEqual([]);
    const lines = tributary
      .log()
      .split('\n')
      .filter((line) => line.includes('had access to the data folder'));
    expect(lines).toHaveLength(1);
    for (const was of [`${folder} (0755)`, 'history (0777)', 'left-over.db (0644)'])
      expect(lines[0]).toContain(was);
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

  it('was readable again after a kill and a restart; files of another user are logged', async () => {
    await tributary.kill();
    const strange = join(folder, 'history', 'strange.db');
    writeFileSync(strange, '', { mode: 0o600 });
    if (isRoot) chownSync(strange, NOBODY, NOBODY);
    tributary = await startEmbedded(folder, {});
    await deliver();
    expect(openEntries(folder)).toEqual([]);
    expect(tributary.log()).not.toContain('had access to the data folder');
    if (isRoot) expect(tributary.log()).toContain(`${strange} (uid ${NOBODY})`);
    // A new file of the data folder must be listed in DATA_ENTRIES, or the folder counts as one of other
    // programs.
    expect(tributary.log()).not.toContain('holds files of other programs');
  });
});
