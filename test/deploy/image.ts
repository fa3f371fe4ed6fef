import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type MountedImage, SECCOMP } from './container.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** The authorities that this machine trusts, which the registry of npm may need. */
const AUTHORITIES = '/etc/ssl/certs';

/** Why the image cannot be built here; undefined where it can. */
export function obstacleToImages(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can build the base of the image';
  const missing = ['buildah', 'crun', 'mmdebstrap'].filter(
    (name) => !(process.env.PATH ?? '').split(':').some((folder) => existsSync(join(folder, name))),
  );
  if (missing.length > 0)
    return `${missing.join(', ')} cannot be found: apt-get install ${missing.join(' ')}`;
  return existsSync(SECCOMP) ? undefined : `${SECCOMP} is missing`;
}

/** The image as the Dockerfile makes it, on a base of Debian packages instead of one from a registry. */
export interface BuiltImage extends MountedImage {
  /** Bytes that a registry stores and a node fetches: all layers, compressed. */
  readonly compressedBytes: number;
  remove(): void;
}

export function buildImage(build: { readonly version: string; readonly commit: string }): BuiltImage {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-image-'));
  const storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')];
  const run = (command: string, args: readonly string[]) =>
    execFileSync(command, args, {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 * 1024 * 1024,
    }).trim();
  const buildah = (verb: string, ...args: readonly string[]) => run('buildah', [...storage, verb, ...args]);
  const remove = () => {
    buildah('umount', '--all');
    // Buildah mounts the folder onto itself.
    spawnSync('umount', [join(folder, 'storage', 'overlay')]);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    run('mmdebstrap', [
      '--variant=minbase',
      '--include=ca-certificates',
      codename(),
      join(folder, 'base.tar'),
    ]);
    const base = buildah('from', 'scratch');
    buildah('add', '--quiet', base, join(folder, 'base.tar'), '/');
    buildah('commit', '--quiet', base, 'base');
    writeFileSync(join(folder, 'npmrc'), npmSettings());
    buildah(
      ...([
        'bud',
        '--isolation',
        'chroot',
        '--format',
        'docker',
        '--file',
        'infra/deploy/Dockerfile',
      ] as const),
      ...['--build-arg', 'BASE=localhost/base', '--build-arg', `VERSION=${build.version}`],
      ...['--build-arg', `COMMIT=${build.commit}`, '--secret', `id=npmrc,src=${join(folder, 'npmrc')}`],
      ...['--volume', `${AUTHORITIES}:${AUTHORITIES}:ro`, '--tag', 'tributary', '.'],
    );
    const { Docker } = JSON.parse(buildah('inspect', '--type', 'image', 'tributary')) as {
      readonly Docker: { readonly config: MountedImage['config'] };
    };
    const archive = join(folder, 'image.tar');
    buildah('push', '--quiet', 'tributary', `oci-archive:${archive}`);
    const compressedBytes = statSync(archive).size;
    rmSync(archive);
    const root = buildah('mount', buildah('from', 'tributary'));
    return { root, config: Docker.config, compressedBytes, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The release of Debian of this machine, or the newest one on another system. */
function codename(): string {
  const release = readFileSync('/etc/os-release', 'utf8');
  return /^ID=debian$/m.test(release)
    ? (/^VERSION_CODENAME=(.*)$/m.exec(release)?.[1] ?? 'trixie')
    : 'trixie';
}

/** The settings of this machine's npm: its registry, and the authorities that it trusts. */
function npmSettings(): string {
  return ['globalconfig', 'userconfig']
    .map((name) => execFileSync('npm', ['config', 'get', name], { encoding: 'utf8' }).trim())
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
}
