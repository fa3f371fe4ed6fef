import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { readConfig } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const FILES = join(ROOT, 'infra', 'deploy', 'one-machine');
const unit = readFileSync(join(FILES, 'tributary.service'), 'utf8');

const noSystemd = spawnSync('systemd-analyze', ['--version']).status !== 0;
if (noSystemd) console.warn('SKIPPED, as there is no systemd-analyze: the check of the unit');

describe('the service of systemd', () => {
  it.skipIf(noSystemd)(
    'is a unit that systemd accepts without a warning, and that is little exposed',
    async () => {
      const folder = await temporaryFolder();
      onTestFinished(() => folder.remove());
      const file = join(folder.path, 'tributary.service');
      writeFileSync(file, unit.replaceAll('/opt/tributary', ROOT.replace(/\/$/, '')));
      const verified = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
      const remarks = verified.stderr.split('\n').filter((line) => line.includes('tributary'));
      expect([verified.status, remarks]).toEqual([0, []]);
      const judged = spawnSync(
        'systemd-analyze',
        ['security', '--offline=true', '--threshold=20', '--no-pager', file],
        { encoding: 'utf8' },
      );
      expect(judged.status, judged.stdout).toBe(0);
    },
  );

  it('is stopped later than Tributary stops by itself', () => {
    const { drainMs, shutdownGraceMs } = readConfig({});
    const [, seconds] = /^TimeoutStopSec=(\d+)s$/m.exec(unit) ?? [];
    expect(Number(seconds) * 1_000).toBeGreaterThan(drainMs + shutdownGraceMs);
  });

  it('has settings with which serve starts', () => {
    const { TRIBUTARY_SECRET_KEYS_FILE: keys, ...settings } = parseEnv(
      readFileSync(join(FILES, 'tributary.env'), 'utf8'),
    );
    expect(keys).toBe('/etc/tributary/secret-keys');
    const config = readConfig(settings);
    expect(config.issuers).toMatchObject([{ issuer: 'https://login.example.com', audiences: ['tributary'] }]);
    expect(config).toMatchObject({ dataFolder: '/var/lib/tributary', host: '127.0.0.1', devIssuer: false });
    expect(unit).toContain('StateDirectory=tributary');
  });
});
