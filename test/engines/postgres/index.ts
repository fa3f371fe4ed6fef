import { randomBytes } from 'node:crypto';
import { chown, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { dockerAnswers } from '../docker/docker-answers.ts';
import { type ContainerSpec, startContainer } from '../docker/docker-engine.ts';
import type { Engine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import { type Command, startNative } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { runTool } from '../native/run-tool.ts';
import { answersPostgres } from './answers.ts';
import { ownerOf } from './owner.ts';
import { findPrograms, MISSING } from './programs.ts';

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
      return startNative({ name: 'postgres', logFolder, prepare });
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
