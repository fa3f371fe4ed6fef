import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

const sources = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => file !== '')
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));

const offenders = (breaks: (source: { file: string; text: string }) => boolean) =>
  sources.filter(breaks).map(({ file }) => file);

describe('the house', () => {
  it('reads the environment in one place', () => {
    const allowed = /^(infra\/runtime\/|test\/|vitest\.config\.ts$)/;
    expect(offenders(({ file, text }) => !allowed.test(file) && /\bprocess\.env\b/.test(text))).toEqual([]);
  });

  it('has no file over 400 lines', () => {
    expect(offenders(({ text }) => text.split('\n').length > 401)).toEqual([]);
  });

  it('has no drawer for everything', () => {
    expect(
      offenders(
        ({ file }) =>
          /(^|\/)(utils?|helpers?|managers?|misc|common)(\.ts|\/)/.test(file) && !file.startsWith('test/'),
      ),
    ).toEqual([]);
  });
});
