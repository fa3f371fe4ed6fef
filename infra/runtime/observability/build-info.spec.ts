import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { commitOf } from './build-info.ts';

const COMMIT = '0123456789abcdef0123456789abcdef01234567';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'build-info-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

it('reads the commit of an image from its file', () => {
  const image = folder();
  writeFileSync(join(image, 'commit'), `${COMMIT}\n`);
  expect(commitOf(image)).toBe('0123456789ab');
});

it('asks git in a clone, whatever a file states', () => {
  const clone = folder();
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-C', clone, '-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
      encoding: 'utf8',
    });
  git('init', '--quiet');
  git('commit', '--quiet', '--allow-empty', '--message', 'one');
  writeFileSync(join(clone, 'commit'), COMMIT);
  expect(commitOf(clone)).toBe(git('rev-parse', 'HEAD').slice(0, 12));
});

it.each([
  ['neither a clone nor an image', undefined],
  ['an image that was built without it', 'unknown'],
])('knows none of %s', (_, content) => {
  const image = folder();
  if (content !== undefined) writeFileSync(join(image, 'commit'), content);
  expect(commitOf(image)).toBeUndefined();
});
