import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ContainerSpec, dockerAnswers, startContainer } from './containers.ts';
import type { Engine } from './engine.ts';
import { answersHttp, type Command, freePort, startEngine } from './engine-process.ts';
import type { Machine } from './machine.ts';
import { cachedFolder, runTool } from './programs.ts';

/** The npm package with ClickHouse's engine as a library of 540 MB: too large for each `npm ci`. */
const PACKAGE = 'chdb@3.4.0';
const MISSING = `npm, which downloads the package ${PACKAGE} once`;
const HTTP = fileURLToPath(new URL('clickhouse-http.ts', import.meta.url));

/**
 * One ClickHouse server, for destinations of that kind. Without Docker it is the engine of the package `chdb` behind a small
 * HTTP server (`clickhouse-http.ts`). `url` contains its user and a password of its own.
 */
export function clickhouseEngine(machine: Machine): Engine<object> {
  return {
    name: 'clickhouse',
    async start({ logFolder } = {}) {
      const password = randomBytes(12).toString('hex');
      if (await dockerAnswers(machine.dockerHost)) return startContainer(container(password), logFolder);
      return startEngine({
        name: 'clickhouse',
        logFolder,
        prepare: (folder) => prepare(machine, folder, password),
      });
    },
  };
}

function container(password: string): ContainerSpec {
  return {
    name: 'clickhouse',
    image: 'clickhouse/clickhouse-server:25.8',
    port: 8123,
    environment: () => ({ CLICKHOUSE_USER: 'default', CLICKHOUSE_PASSWORD: password }),
    url: (address) => `http://default:${password}@${address}`,
    isReady: (address) => answersHttp(`http://${address}/ping`),
  };
}

async function prepare(machine: Machine, folder: string, password: string): Promise<Command> {
  const packages = await cachedFolder(machine.cacheFolder, PACKAGE.replace('@', '-'), async (made) => {
    await writeFile(join(made, 'package.json'), '{"private":true}');
    await runTool('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', PACKAGE], {
      cwd: made,
      env: machine.env,
      missing: MISSING,
    });
  });
  const data = join(folder, 'data');
  await mkdir(data);
  const port = await freePort();
  return {
    command: process.execPath,
    args: [HTTP, packages, data, String(port), password],
    url: `http://default:${password}@127.0.0.1:${port}`,
    env: machine.engineEnv,
    isReady: () => answersHttp(`http://127.0.0.1:${port}/ping`),
    missing: 'Node',
    // The engine has threads that wait for connections to end.
    endsBy: 'SIGKILL',
  };
}
