import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Load {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  readonly seconds: number;
}

export interface LoadResult {
  readonly requestsPerSecond: number;
  /** Requests answered with 2xx. */
  readonly answered: number;
  readonly other: number;
}

/**
 * `wrk` where it is installed, because it uses the least of the cores it shares with the server; else
 * autocannon.
 */
export const GENERATOR = hasWrk() ? 'wrk' : 'autocannon';

export function load(options: Load): Promise<LoadResult> {
  return GENERATOR === 'wrk' ? loadByWrk(options) : loadByAutocannon(options);
}

function hasWrk(): boolean {
  try {
    execFileSync('which', ['wrk'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

async function loadByWrk({ url, headers, body, connections, seconds }: Load): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-wrk-'));
  const script = join(folder, 'post.lua');
  const quoted = (text: string) => `[==[${text}]==]`;
  writeFileSync(
    script,
    [
      'wrk.method = "POST"',
      `wrk.body = ${quoted(body)}`,
      ...Object.entries(headers).map(([name, value]) => `wrk.headers["${name}"] = ${quoted(value)}`),
      'done = function(summary, latency, requests)',
      '  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout',
      '  io.write(string.format("RESULT %d %d %d\\n", summary.requests, bad, summary.duration))',
      'end',
    ].join('\n'),
  );
  const { stdout } = await run('wrk', [
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    '--timeout',
    '10s',
    '-s',
    script,
    url,
  ]);
  rmSync(folder, { recursive: true });
  const [, all = '0', bad = '0', micros = '1'] = /RESULT (\d+) (\d+) (\d+)/.exec(stdout) ?? [];
  const answered = Number(all) - Number(bad);
  return { requestsPerSecond: answered / (Number(micros) / 1e6), answered, other: Number(bad) };
}

async function loadByAutocannon(options: Load): Promise<LoadResult> {
  const file = fileURLToPath(new URL('./autocannon-process.ts', import.meta.url));
  const { stdout } = await run(process.execPath, [file, JSON.stringify(options)], {
    maxBuffer: 16 * 1024 * 1024,
  });
  return JSON.parse(stdout) as LoadResult;
}
