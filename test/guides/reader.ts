import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { freePort } from '../engines/engine-process.ts';
import { pidOf, withoutTestSettings } from '../helpers/child.ts';
import { startEmbedded } from '../helpers/embedded.ts';
import { isShown, parseSteps, readGuide, type Step, withoutSection } from './blocks.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** How often a guide is followed: in the long form twice, as what it made the first time is there then. */
const TIMES = process.env.TRIBUTARY_TEST_LONG === undefined ? 1 : 2;
/** Entries of a folder that a fresh clone does not have. */
const NOT_CLONED = new Set(['.git', 'data', 'try', 'coverage', '.turbo']);
/** The addresses of programs that readers start themselves. */
const OTHER_PORTS = /\b900[0-9]\b/g;
const USER_AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';

/** The paths of programs of this machine. */
interface Programs {
  readonly curl: string;
  readonly chromium: string | undefined;
  /** One that has the SDKs. */
  readonly python: string | undefined;
}

/** The values printed by `npm start`, and how to stop it. */
export interface Started {
  readonly url: string;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
  stop(): Promise<unknown>;
}

/** How it went to do what a guide says, from the top. */
interface Reading {
  /** How the first block that did something else differed; the reader stopped there. */
  readonly difference: string | undefined;
  /** Faults in pages of the browser. */
  readonly faults: readonly string[];
  /** Exit code and address of each call of curl. One that was repeated until its answer said something is there once. */
  readonly calls: readonly string[];
}

/** Somebody with a clone of the project, in which `npm start` runs: does what a guide says. */
export class Reader {
  readonly #clone: string;
  readonly #started: Started;
  readonly #programs: Programs;
  readonly #path: string;
  readonly #ports = new Map<string, Promise<number>>();
  #browser: Promise<Browser> | undefined;
  readonly #pages: Page[] = [];
  readonly #faults: string[] = [];

  /** `path` is where a terminal finds programs. */
  constructor(clone: string, started: Started, programs: Programs, path = process.env.PATH ?? '') {
    this.#clone = clone;
    this.#started = started;
    this.#programs = programs;
    this.#path = path;
  }

  /** With the working tree of these tests in place of a clone. */
  static async start(programs: Programs): Promise<Reader> {
    const clone = mkdtempSync(join(tmpdir(), 'tributary-guide-'));
    for (const name of readdirSync(ROOT))
      if (!NOT_CLONED.has(name)) symlinkSync(join(ROOT, name), join(clone, name));
    return new Reader(clone, await startEmbedded(join(clone, 'data'), {}), programs);
  }

  /**
   * Does what a guide says, in one terminal. `values` are put in for what readers have from elsewhere; `skipped` is the heading of
   * a section that is left out.
   */
  async follow(
    guide: string,
    values: Readonly<Record<string, string>>,
    skipped?: string,
  ): Promise<readonly Reading[]> {
    const text = readGuide(guide);
    const read = skipped === undefined ? text : withoutSection(text, skipped);
    const steps = parseSteps(await this.#fillIn(read, values));
    const calls = join(this.#clone, 'counting', 'calls');
    const shell = this.#terminal(calls);
    const readings: Reading[] = [];
    try {
      while (readings.length < TIMES && readings.at(-1)?.difference === undefined) {
        rmSync(calls, { force: true });
        let difference: string | undefined;
        for (const step of steps) {
          difference ??= await this.#follow(step, shell);
          if (difference !== undefined) break;
        }
        for (const page of this.#pages.splice(0)) await page.close();
        const made = existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
        readings.push({
          difference,
          faults: this.#faults.splice(0),
          calls: made.filter((call, at) => call !== made[at - 1]),
        });
      }
    } finally {
      await shell.close();
    }
    return readings;
  }

  async close(): Promise<void> {
    await (await this.#browser)?.close();
    await this.#started.stop();
    await rm(this.#clone, { recursive: true, force: true });
  }

  /** Puts in what a reader copies from elsewhere, by the words that stand for it, and ports that are free. */
  async #fillIn(text: string, values: Readonly<Record<string, string>>): Promise<string> {
    const { url, workspaceId, writeKey, idToken } = this.#started;
    const known = {
      'http://127.0.0.1:8080': url,
      '<workspace>': workspaceId,
      '<write key>': writeKey,
      '<ID token>': idToken,
      ...values,
    };
    let filled = Object.entries(known).reduce((left, [name, value]) => left.replaceAll(name, value), text);
    for (const [port] of filled.matchAll(OTHER_PORTS)) {
      const free = this.#ports.get(port) ?? freePort();
      this.#ports.set(port, free);
      filled = filled.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), String(await free));
    }
    return filled;
  }

  /** A terminal in the folder of the clone. `calls` is a file that gets a line for each call of curl. */
  #terminal(calls: string): Shell {
    const bin = dirname(calls);
    mkdirSync(bin, { recursive: true });
    const script = [
      '#!/bin/sh',
      'for url in "$@"; do case $url in http*) break ;; esac; done',
      `'${this.#programs.curl}' "$@"`,
      'code=$?',
      `echo "$code $url" >> '${calls}'`,
      'exit $code',
    ];
    writeFileSync(join(bin, 'curl'), `${script.join('\n')}\n`, { mode: 0o755 });
    const { python } = this.#programs;
    return new Shell(this.#clone, {
      PATH: [bin, ...(python === undefined ? [] : [dirname(python)]), this.#path].join(':'),
    });
  }

  /** Does one step. Undefined: as the guide says; otherwise how it differs. */
  async #follow(step: Step, shell: Shell): Promise<string | undefined> {
    if (step.does === 'save') {
      const file = join(this.#clone, step.file);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, step.text);
      return undefined;
    }
    if (step.does === 'open') {
      await this.#open(step.address);
      return undefined;
    }
    const printed = await shell.run(step.code);
    const shown = step.prints ?? { language: 'text', text: '' };
    return isShown(shown, printed)
      ? undefined
      : `${step.code}\nis to print\n${shown.text}\nand printed\n${printed}`;
  }

  async #open(address: string): Promise<void> {
    this.#browser ??= chromium.launch({
      executablePath: this.#programs.chromium ?? '',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-background-networking',
        '--disable-component-update',
      ],
    });
    // A reader's browser does not call itself headless, as bots do.
    const page = await (await this.#browser).newPage({ userAgent: USER_AGENT });
    this.#pages.push(page);
    page.on('pageerror', ({ message }) => this.#faults.push(message));
    page.on('response', (response) => {
      if (response.status() >= 400) this.#faults.push(`${response.url()} is ${response.status()}`);
    });
    await page.goto(address, { timeout: 0 });
  }
}

/** The text that a command that fails outside of a condition adds to the output of its block. */
const FAILED = 'FAILED';

/** A terminal: variables set by one block are there in the next. */
class Shell {
  readonly #bash: ChildProcess;
  #output = '';
  #blocks = 0;
  #changed = Promise.withResolvers<void>();

  constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.#bash = spawn('bash', ['--norc', '-s'], {
      cwd: folder,
      env: { ...withoutTestSettings(), ...env },
      stdio: 'pipe',
      // With a process group of its own, so that what blocks leave in the background ends with it.
      detached: true,
    });
    this.#bash.stdout?.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString('utf8');
      this.#wake();
    });
    this.#bash.once('exit', () => this.#wake());
    this.#bash.stdin?.write(
      `exec 2>&1\nset -E -o pipefail\ntrap 'echo "${FAILED} ($?): $BASH_COMMAND" >&2' ERR\n`,
    );
  }

  /** Runs a block; resolves to what it printed, with a line for each command that failed. */
  async run(code: string): Promise<string> {
    const end = `block ${++this.#blocks} has ended`;
    const before = this.#output.length;
    this.#bash.stdin?.write(`${code}\necho; echo '${end}'\n`);
    const printed = () => this.#output.slice(before);
    while (!printed().includes(end)) {
      if (this.#bash.exitCode !== null) throw new Error(`the shell has ended: ${printed()}`);
      await this.#changed.promise;
    }
    // The shell tells of background processes that a block ended, as it does in a terminal.
    return printed()
      .split('\n')
      .filter((line) => line !== '' && line !== end && !/: line \d+: +\d+ Terminated/.test(line))
      .map((line) => `${line}\n`)
      .join('');
  }

  async close(): Promise<void> {
    this.#bash.stdin?.end();
    if (this.#bash.exitCode === null) await once(this.#bash, 'exit');
    try {
      process.kill(-pidOf(this.#bash), 'SIGTERM');
    } catch {
      // Nothing was left in the background.
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
