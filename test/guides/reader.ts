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
import { startEmbedded } from '../helpers/embedded.ts';
import { freePort } from '../helpers/free-port.ts';
import { isShown, parseSteps, readGuide, type Step } from './blocks.ts';
import { Shell } from './shell.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Entries of a folder that a fresh clone does not have. */
const NOT_CLONED = new Set(['.git', 'data', 'try', 'coverage', '.turbo']);
/** The addresses of programs that readers start themselves. */
const OTHER_PORTS = /\b900[0-9]\b/g;
const USER_AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';

/** The paths of programs of this machine. */
export interface Programs {
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
export interface Reading {
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

  /** Does what a guide says, twice, in one terminal. `values` are put in for what readers have from elsewhere. */
  async followTwice(guide: string, values: Readonly<Record<string, string>>): Promise<readonly Reading[]> {
    const steps = parseSteps(await this.#fillIn(readGuide(guide), values));
    const calls = join(this.#clone, 'counting', 'calls');
    const shell = this.#terminal(calls);
    const readings: Reading[] = [];
    try {
      while (readings.length < 2 && readings.at(-1)?.difference === undefined) {
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
