import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  NO_LOGGER,
  PROCESS_REPORT_EVERY_MS,
  type ProcessBoard,
  type ProcessReport,
  Unavailable,
} from '@tributary/core';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { readConfig } from '../config/config.ts';
import { commitOf, enginesOf, reportProcess } from './system-view.ts';

const config = readConfig({ TRIBUTARY_DATA_DIR: '/nowhere' });

beforeEach(
  () =>
    void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'] }),
);
afterEach(() => void vi.useRealTimers());

function setUp() {
  const reports = new Map<string, ProcessReport>();
  const warned: string[] = [];
  const state = { down: false, silent: false, closed: false };
  const answer = async () => {
    if (state.silent) await new Promise(() => {});
    if (state.down) throw new Unavailable('down');
  };
  const board: ProcessBoard = {
    async report(report) {
      await answer();
      reports.set(report.process, report);
    },
    async withdraw(process) {
      await answer();
      reports.delete(process);
    },
    read: async () => [...reports.values()],
    async close() {
      state.closed = true;
    },
  };
  const logger = { ...NO_LOGGER, warn: (_fields: object, message: string) => void warned.push(message) };
  const readiness = () => ({ ready: !state.down, checks: { catalog: 'caught up' } });
  const open = () => reportProcess(board, { role: 'gateway', config, logger, readiness });
  return { reports, warned, state, open };
}

const tick = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

it('a process reports itself at once and every few seconds, and withdraws when it ends', async () => {
  const { reports, state, open } = setUp();
  const reporting = open();
  await tick();
  const [first] = reports.values();
  expect(first).toMatchObject({ role: 'gateway', ready: true, checks: { catalog: 'caught up' }, stages: [] });
  await tick(PROCESS_REPORT_EVERY_MS);
  expect([...reports.keys()]).toEqual([first?.process]);
  expect(reports.get(first?.process ?? '')?.at).toBe((first?.at ?? 0) + PROCESS_REPORT_EVERY_MS);
  await reporting.close();
  expect([reports.size, state.closed]).toEqual([0, true]);
});

it('a board that is down is named once, until it answers again', async () => {
  const { warned, state, open } = setUp();
  state.down = true;
  const reporting = open();
  await tick(3 * PROCESS_REPORT_EVERY_MS);
  expect(warned).toHaveLength(1);
  state.down = false;
  await tick(PROCESS_REPORT_EVERY_MS);
  state.down = true;
  await tick(PROCESS_REPORT_EVERY_MS);
  expect(warned).toHaveLength(2);
  await reporting.close();
});

it('a silent board delays neither reports of others nor the end of the process', async () => {
  const { state, open } = setUp();
  state.silent = true;
  const reporting = open();
  await tick(PROCESS_REPORT_EVERY_MS);
  const closing = reporting.close();
  await tick(1_000);
  await closing;
  expect(state.closed).toBe(true);
});

it('engines are those that the process reports, with their versions, and SQLite for stores of its own', () => {
  const checks = { catalog: 'caught up', redis: 'answers', kafka: 'does not answer: timed out' };
  const all = { kafkaBrokers: ['a:9092'], redisUrl: 'redis://a', elasticsearchUrl: ['http://a'] };
  expect(enginesOf(all, checks, { redis: '7.4.1', sqlite: '3' })).toEqual([
    { engine: 'kafka', state: 'does not answer: timed out', version: null },
    { engine: 'redis', state: 'answers', version: '7.4.1' },
  ]);
  expect(enginesOf({ ...all, elasticsearchUrl: undefined }, {}, { sqlite: '3' })).toEqual([
    { engine: 'sqlite', state: 'answers', version: '3' },
  ]);
});

const COMMIT = '0123456789abcdef0123456789abcdef01234567';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'build-info-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

it('the commit is that of the clone, else of the file of an image, or unknown', () => {
  const here = folder();
  expect(commitOf(here)).toBeUndefined();
  writeFileSync(join(here, 'commit'), 'unknown');
  expect(commitOf(here)).toBeUndefined();
  writeFileSync(join(here, 'commit'), `${COMMIT}\n`);
  expect(commitOf(here)).toBe('0123456789ab');
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-C', here, '-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
      encoding: 'utf8',
    });
  git('init', '--quiet');
  git('commit', '--quiet', '--allow-empty', '--message', 'one');
  expect(commitOf(here)).toBe(git('rev-parse', 'HEAD').slice(0, 12));
});
