import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** An image whose root folder is mounted. */
export interface MountedImage {
  readonly root: string;
  readonly config: {
    readonly User: string;
    readonly Env: readonly string[];
    readonly Entrypoint: readonly string[];
    readonly WorkingDir: string;
    readonly Labels: Readonly<Record<string, string>>;
  };
}

interface Seccomp {
  readonly defaultAction: string;
  readonly archMap: readonly {
    readonly architecture: string;
    readonly subArchitectures: readonly string[];
  }[];
  readonly syscalls: readonly {
    readonly names: readonly string[];
    readonly action: string;
    readonly args?: readonly object[];
    readonly includes?: { readonly caps?: readonly string[]; readonly arches?: readonly string[] };
    readonly excludes?: { readonly caps?: readonly string[]; readonly arches?: readonly string[] };
  }[];
}

/** This machine in the words of the profile. */
const MACHINE =
  process.arch === 'arm64'
    ? { name: 'arm64', architecture: 'SCMP_ARCH_AARCH64' }
    : { name: 'amd64', architecture: 'SCMP_ARCH_X86_64' };

/** The profile of Podman and CRI-O for a container without capabilities, as the runtime takes it. */
function seccomp(file: string): object {
  const { defaultAction, archMap, syscalls } = JSON.parse(readFileSync(file, 'utf8')) as Seccomp;
  const isFor = ({ includes, excludes }: Seccomp['syscalls'][number]) =>
    (includes?.caps ?? []).length === 0 &&
    (includes?.arches ?? [MACHINE.name]).includes(MACHINE.name) &&
    !(excludes?.arches ?? []).includes(MACHINE.name);
  return {
    defaultAction,
    architectures: archMap
      .filter(({ architecture }) => architecture === MACHINE.architecture)
      .flatMap(({ architecture, subArchitectures }) => [architecture, ...subArchitectures]),
    syscalls: syscalls
      .filter(isFor)
      .map(({ names, action, args = [] }) => ({ names, action, ...(args.length > 0 && { args }) })),
  };
}

/** Where Debian's containers-common has the profile. */
export const SECCOMP = '/usr/share/containers/seccomp.json';
const NO_CAPABILITIES = { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] };

export interface ContainerOptions {
  /** In this folder are its data and the state of the runtime. */
  readonly folder: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly isEmptyDir?: boolean;
  /** Instead of the image's. */
  readonly entrypoint?: readonly string[];
}

/**
 * A container of an image, run by crun as a pod of the chart is: on a root that is read-only, without capabilities, with the
 * default seccomp profile and a folder for its data. It shares the network of this machine.
 */
export class Container {
  readonly #id = `tributary-${process.pid}-${Math.random().toString(36).slice(2)}`;
  readonly #folder: string;
  readonly #user: string;
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;
  #output = '';
  #log = '';

  constructor({ root, config }: MountedImage, args: readonly string[], options: ContainerOptions) {
    const [uid, gid] = config.User.split(':').map(Number);
    this.#folder = options.folder;
    this.#user = config.User;
    const bundle = mkdtempSync(join(options.folder, 'bundle-'));
    const data = join(options.folder, 'data');
    mkdirSync(data, { recursive: true, mode: 0o700 });
    // As Docker makes a volume of an image's folder, or as Kubernetes makes an emptyDir for an `fsGroup`.
    if (options.isEmptyDir === true) {
      chownSync(data, 0, gid ?? 0);
      chmodSync(data, 0o2777);
    } else chownSync(data, uid ?? 0, gid ?? 0);
    const env = Object.entries(options.env ?? {}).map(([name, value]) => `${name}=${value}`);
    writeFileSync(
      join(bundle, 'config.json'),
      JSON.stringify({
        ociVersion: '1.0.2',
        root: { path: root, readonly: true },
        process: {
          user: { uid, gid },
          args: [...(options.entrypoint ?? config.Entrypoint), ...args],
          env: [...config.Env, ...env],
          cwd: config.WorkingDir,
          capabilities: NO_CAPABILITIES,
          noNewPrivileges: true,
        },
        mounts: [
          { destination: '/proc', type: 'proc', source: 'proc' },
          {
            destination: '/dev',
            type: 'tmpfs',
            source: 'tmpfs',
            options: ['nosuid', 'mode=755', 'size=64k'],
          },
          { destination: '/data', type: 'bind', source: data, options: ['rbind', 'rw'] },
        ],
        linux: {
          namespaces: ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type })),
          seccomp: seccomp(SECCOMP),
        },
      }),
    );
    this.#child = spawn('unshare', this.#crun('run', '--bundle', bundle, this.#id), {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#exited = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.stdout?.on('data', (chunk) => {
      this.#output += String(chunk);
    });
    this.#child.stderr?.on('data', (chunk) => {
      this.#log += String(chunk);
    });
  }

  /** The arguments of `unshare` for a command of crun, which does not start where both versions of cgroups are mounted. */
  #crun(...command: readonly string[]): readonly string[] {
    const inCgroups2 = 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec crun "$@"';
    const runtime = ['--root', join(this.#folder, 'state'), '--cgroup-manager=disabled'];
    return ['--mount', 'sh', '-c', inCgroups2, 'crun', ...runtime, ...command];
  }

  get output(): string {
    return this.#output;
  }

  get log(): string {
    return this.#log;
  }

  /** Resolves to the first match in its standard output; rejects where it ends before, or takes two minutes. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    const deadline = performance.now() + 120_000;
    for (;;) {
      const match = pattern.exec(this.#output);
      if (match !== null) return match;
      if (this.#child.exitCode !== null || performance.now() > deadline)
        throw new Error(`no ${pattern} (exit code ${this.#child.exitCode}):\n${this.#output}\n${this.#log}`);
      await sleep(50);
    }
  }

  /** Its exit code, once it has ended. */
  ended(): Promise<number | null> {
    return this.#exited;
  }

  /** SIGTERM to its first process, as the kubelet sends it; resolves to its exit code. */
  stop(): Promise<number | null> {
    if (this.#child.exitCode === null) execFileSync('unshare', this.#crun('kill', this.#id, 'TERM'));
    return this.#exited;
  }

  /** The standard output of a command that runs in it, as its user. */
  exec(...command: readonly string[]): string {
    return execFileSync('unshare', this.#crun('exec', '--user', this.#user, this.#id, ...command), {
      encoding: 'utf8',
    });
  }

  /** Ends it, however it is. */
  remove(): void {
    if (this.#child.exitCode === null) execFileSync('unshare', this.#crun('delete', '--force', this.#id));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
