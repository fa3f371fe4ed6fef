import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { engines } from '../helpers/engines.ts';
import { redisAnswer } from './redis.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

describe.skipIf(engines() === undefined || !process.env.TRIBUTARY_TEST_LONG)('npm run engines', () => {
  it('prints the environment to use and ready, and ends all on SIGTERM', async () => {
    const command = spawn('npm', ['run', '--silent', 'engines'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let told = '';
    command.stderr.on('data', (chunk) => {
      told += String(chunk);
    });
    const exited = once(command, 'exit');
    const lines: string[] = [];
    let answers: unknown[] = [];
    for await (const line of createInterface({ input: command.stdout })) {
      lines.push(line);
      if (line !== 'ready') continue;
      answers = await askEach(settingsIn(lines)).finally(() => command.kill('SIGTERM'));
    }
    await exited;

    expect(lines.pop(), told).toBe('ready');
    expect(lines.filter((line) => !/^[A-Z_]+=\S+$/.test(line))).toEqual([]);
    const settings = settingsIn(lines);
    expect([...settings.keys()]).toEqual([
      'KAFKA_BROKERS',
      'REDIS_URL',
      'SCHEMA_REGISTRY_URL',
      'ELASTICSEARCH_URL',
      'TRIBUTARY_EGRESS_ALLOW',
    ]);
    expect(answers).toEqual(['+PONG', 200, 200]);
    await expect(askEach(settings)).rejects.toThrow();
    const logFolder = /logs are in (\S+)/.exec(told)?.[1] ?? '';
    expect(logFolder).not.toBe('');
    // It is removed last, after every engine has ended.
    expect(existsSync(logFolder)).toBe(false);
  });
});

function settingsIn(lines: readonly string[]): ReadonlyMap<string, string> {
  const pairs = lines.map((line) => line.split('='));
  return new Map(pairs.flatMap(([key, value]) => (key && value ? [[key, value]] : [])));
}

function askEach(settings: ReadonlyMap<string, string>): Promise<unknown[]> {
  const at = (key: string) => settings.get(key) ?? '';
  const status = async (url: string) => (await fetch(url)).status;
  return Promise.all([
    redisAnswer(at('REDIS_URL'), 'PING'),
    status(`${at('SCHEMA_REGISTRY_URL')}/subjects`),
    status(`${at('ELASTICSEARCH_URL')}/_cluster/health`),
  ]);
}
