import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { access, chown, constants, readdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import { type ContainerSpec, dockerAnswers, startContainer } from './containers.ts';
import { type Engine, EngineMissing } from './engine.ts';
import { type Command, freePort, startEngine } from './engine-process.ts';
import type { Machine } from './machine.ts';
import { runTool } from './programs.ts';

const USER = 'tributary';

/**
 * One PostgreSQL server with the database `postgres`, for destinations of that kind: not part of the cluster
 * wiring. `url` contains its user and a password of its own.
 */
export function postgresEngine(machine: Machine): Engine<object> {
  return {
    name: 'postgres',
    async start({ logFolder } = {}) {
      const password = randomBytes(12).toString('hex');
      if (await dockerAnswers(machine.dockerHost)) return startContainer(container(password), logFolder);
      const prepare = (folder: string) => preparePostgres(machine, folder, password);
      return startEngine({ name: 'postgres', logFolder, prepare });
    },
  };
}

const urlOf = (address: string, password: string) => `postgres://${USER}:${password}@${address}/postgres`;

function container(password: string): ContainerSpec {
  return {
    name: 'postgres',
    image: 'postgres:17',
    port: 5432,
    environment: () => ({ POSTGRES_USER: USER, POSTGRES_PASSWORD: password, POSTGRES_DB: 'postgres' }),
    url: (address) => urlOf(address, password),
    isReady: answersPostgres,
  };
}

/**
 * The server refuses to run as root: then its files and its process belong to another user of this machine.
 */
async function preparePostgres(machine: Machine, folder: string, password: string): Promise<Command> {
  const { initdb, postgres } = await findPrograms(machine.engineEnv.PATH ?? '');
  const owner = ownerOf(process.getuid?.() ?? -1);
  const data = join(folder, 'data');
  const passwordFile = join(folder, 'password');
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (owner !== undefined) {
    await chown(folder, owner.uid, owner.gid);
    await chown(passwordFile, owner.uid, owner.gid);
  }
  const options = ['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-sync'];
  await runTool(initdb, ['-D', data, '-U', USER, `--pwfile=${passwordFile}`, ...options], {
    env: machine.engineEnv,
    missing: MISSING,
    ...owner,
  });
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    // Keeps all of its data in the folder, so a kill leaves nothing behind.
    dynamic_shared_memory_type: 'mmap',
    fsync: 'off',
  };
  return {
    command: postgres,
    args: ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    url: urlOf(`127.0.0.1:${port}`, password),
    env: machine.engineEnv,
    isReady: () => answersPostgres(`127.0.0.1:${port}`),
    missing: MISSING,
    // SIGTERM would wait for every client to leave by itself.
    endsBy: 'SIGINT',
    ...owner,
  };
}

const TIMEOUT_MS = 1_000;
const PROTOCOL = 3 << 16;

/** True when the server asks a new client to sign in; during its start it refuses clients. */
async function answersPostgres(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no answer')));
  try {
    socket.write(startup('nobody'));
    const [answer] = await once(socket, 'data');
    return String(answer).startsWith('R');
  } finally {
    socket.destroy();
  }
}

function startup(user: string): Buffer {
  const parameters = Buffer.from(`user\0${user}\0\0`);
  const header = Buffer.alloc(8);
  header.writeInt32BE(header.length + parameters.length, 0);
  header.writeInt32BE(PROTOCOL, 4);
  return Buffer.concat([header, parameters]);
}

const MISSING = 'install PostgreSQL (Debian: apt-get install postgresql)';

/** Debian's folder with the programs of each release, which are not in the PATH. */
const DEBIAN = '/usr/lib/postgresql';

interface PostgresPrograms {
  readonly initdb: string;
  readonly postgres: string;
}

/**
 * The programs of a server: Debian's newest release, else those in the PATH. `EngineMissing` when there are
 * none.
 */
async function findPrograms(path: string): Promise<PostgresPrograms> {
  const releases = (await readdir(DEBIAN).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  const folders = [...releases.map((release) => join(DEBIAN, release, 'bin')), ...path.split(delimiter)];
  for (const folder of folders) {
    const programs = { initdb: join(folder, 'initdb'), postgres: join(folder, 'postgres') };
    if ((await runs(programs.initdb)) && (await runs(programs.postgres))) return programs;
  }
  throw new EngineMissing(`no PostgreSQL server: ${MISSING}`);
}

function runs(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** A user of this machine. */
interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** The candidates: the user of Debian's package, else the unprivileged user. */
const USERS = ['postgres', 'nobody'];

/** The user for a program that refuses to run as root; undefined where this process is not root itself. */
function ownerOf(uid: number): Owner | undefined {
  if (uid !== 0) return undefined;
  const lines = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  for (const user of USERS) {
    const found = lines.find(([name]) => name === user);
    if (found !== undefined) return { uid: Number(found[2]), gid: Number(found[3]) };
  }
  return undefined;
}
