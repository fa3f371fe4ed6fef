import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../engines/engine-process.ts';
import { inherited } from './child.ts';
import { eventually } from './client.ts';

export const RULES = fileURLToPath(new URL('../../infra/deploy/alerts.yaml', import.meta.url));

/** Whether Prometheus and promtool are installed, as `.ci/prometheus` does. In CI their absence fails the tests. */
export function hasPrometheus(): boolean {
  if (process.env.CI !== undefined) return true;
  return (
    spawnSync('prometheus', ['--version']).status === 0 && spawnSync('promtool', ['--version']).status === 0
  );
}

/** Runs promtool; fails with what it printed. */
export function promtool(...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`promtool ${args.join(' ')} failed:\n${stdout}${stderr}`);
  return stdout;
}

export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

interface QueryAnswer {
  readonly status: string;
  readonly error?: string;
  readonly data?: {
    readonly resultType: string;
    readonly result: readonly {
      metric: Readonly<Record<string, string>>;
      value: readonly [number, string];
    }[];
  };
}

/** A Prometheus on loopback that scrapes processes every second. */
export class Prometheus {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #url: string;
  #log = '';

  private constructor(child: ChildProcess, folder: string, url: string) {
    this.#child = child;
    this.#folder = folder;
    this.#url = url;
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#log += chunk.toString('utf8');
    });
  }

  /** Of these admin ports. `rules`: the text of a rules file. */
  static async start(adminUrls: readonly string[], rules: string): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'tributary-prometheus-'));
    const port = await freePort();
    writeFileSync(join(folder, 'rules.yaml'), rules);
    writeFileSync(
      join(folder, 'prometheus.yaml'),
      JSON.stringify({
        global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
        rule_files: [join(folder, 'rules.yaml')],
        scrape_configs: [
          {
            job_name: 'tributary',
            static_configs: [{ targets: adminUrls.map((url) => new URL(url).host) }],
          },
        ],
      }),
    );
    const child = spawn(
      'prometheus',
      [
        `--config.file=${join(folder, 'prometheus.yaml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--log.level=warn',
      ],
      { env: inherited(), stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const prometheus = new Prometheus(child, folder, `http://127.0.0.1:${port}`);
    await eventually(
      () => prometheus.#isReady(),
      (ready) => ready,
    );
    return prometheus;
  }

  /** The present value of each series of an expression; throws with Prometheus's own words where it is wrong. */
  async query(expr: string): Promise<readonly Series[]> {
    const answer = await fetch(`${this.#url}/api/v1/query?${new URLSearchParams({ query: expr })}`);
    const { status, error, data } = (await answer.json()) as QueryAnswer;
    if (status !== 'success' || data === undefined) throw new Error(`${expr}: ${error}`);
    return data.result.map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }));
  }

  /** Names of the alerts that fire now, or fired within so many seconds. */
  async firing(withinS = 1): Promise<readonly string[]> {
    const fired = `count_over_time(ALERTS{alertstate="firing"}[${withinS}s])`;
    const found = await this.query(
      `count by (alertname) (${withinS > 1 ? fired : 'ALERTS{alertstate="firing"}'})`,
    );
    return found.map(({ metric }) => metric.alertname ?? '').sort();
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.kill('SIGTERM');
    await ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #isReady(): Promise<boolean> {
    if (this.#child.exitCode !== null) throw new Error(`Prometheus ended:\n${this.#log}`);
    return fetch(`${this.#url}/-/ready`).then(
      ({ status }) => status === 200,
      () => false,
    );
  }
}
