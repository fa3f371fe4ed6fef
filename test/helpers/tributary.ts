import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from './client.ts';

const MAIN = fileURLToPath(new URL('../../infra/runtime/main.ts', import.meta.url));
const START_TIMEOUT_MS = 60_000;

export interface StartOptions {
  /** Beside `PORT=0`, loopback, and a data folder in the system's temporary one. */
  readonly env?: Readonly<Record<string, string>>;
  /** An existing data folder, e.g. of a server that was killed. */
  readonly folder?: string;
}

/** A Tributary of its own for a test: the real command in a process of its own. */
export interface Tributary {
  readonly url: string;
  readonly folder: string;
  readonly pid: number;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
  /** Calls as the quickstart's owner, in its workspace. */
  readonly owner: Client;
  /** Calls with the quickstart's write key. */
  readonly producer: Client;
  /** Everything it logged. */
  log(): string;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM; resolves to its exit code. */
  stop(): Promise<number | null>;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

export async function startTributary(options: StartOptions = {}): Promise<Tributary> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'tributary-'));
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, 'dev'], {
    env: { PATH: process.env.PATH, HOST: '127.0.0.1', PORT: '0', TRIBUTARY_DATA_DIR: folder, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString('utf8');
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  const welcome = await readWelcome(child, exited, () => log);
  const owner = new Client(welcome.url, welcome.idToken, welcome.workspaceId);
  const stop = () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    return exited;
  };
  return {
    ...welcome,
    folder,
    pid: child.pid ?? 0,
    owner,
    producer: owner.with({ token: welcome.writeKey }),
    log: () => log,
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
    stop,
    async remove() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface Welcome {
  readonly url: string;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
}

/** Reads what a person would: the lines printed once it is ready. */
async function readWelcome(
  child: ChildProcess,
  exited: Promise<number | null>,
  log: () => string,
): Promise<Welcome> {
  let text = '';
  const ready = new Promise<Welcome>((resolve) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const found = (pattern: RegExp) => pattern.exec(text)?.[1] ?? '';
      if (!text.includes('Stop with Ctrl-C')) return;
      resolve({
        url: found(/ready at (\S+)/),
        workspaceId: found(/workspace\s+(\S+)/),
        writeKey: found(/write key\s+(\S+)/),
        idToken: found(/ID token\s+(\S+)/),
      });
    });
  });
  const timeout = AbortSignal.timeout(START_TIMEOUT_MS);
  const gaveUp = new Promise<never>((_, reject) => {
    timeout.addEventListener('abort', () => reject(new Error(`not ready in time:\n${text}\n${log()}`)));
    void exited.then((code) =>
      reject(new Error(`it ended with code ${code} before it was ready:\n${text}\n${log()}`)),
    );
  });
  gaveUp.catch(() => {}); // it also rejects, unheard, when the server is stopped later
  return Promise.race([ready, gaveUp]);
}
