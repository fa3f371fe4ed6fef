import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { METRICS } from '@tributary/core';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

const sources = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.tsx'],
  {
    cwd: root,
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((file) => file !== '')
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));

const offenders = (breaks: (source: { file: string; text: string }) => boolean) =>
  sources.filter(breaks).map(({ file }) => file);

describe('the house', () => {
  it('reads the environment in one place', () => {
    const allowed = /^(infra\/runtime\/|test\/|vitest\.config\.ts$)|[.]spec[.]ts$/;
    expect(offenders(({ file, text }) => !allowed.test(file) && /\bprocess\.env\b/.test(text))).toEqual([]);
  });

  it('has no script that runs until it is stopped and outlives npm when a supervisor stops that', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      readonly scripts: Readonly<Record<string, string>>;
    };
    // npm signals only its shell, so the program has to replace the shell.
    for (const name of ['start', 'engines', 'chaos']) expect(scripts[name]).toMatch(/^exec /);
  });

  it('exports every metric that its catalogue describes', () => {
    const product = sources.filter(({ file }) => /^(gateway|processors|connectors|infra)\//.test(file));
    const told = (name: string) =>
      product.some(({ file, text }) => !file.endsWith('.spec.ts') && text.includes(`'${name}'`));
    expect(Object.keys(METRICS).filter((name) => !told(name))).toEqual([]);
  });

  it('states in the first line of a spec why it runs alone, if its suffix is alone', () => {
    const REASON = /^\/\/ Runs alone(?<whenLong> in the long form)?: \S/;
    const suffixFor = (text: string) => {
      const reason = REASON.exec(text);
      if (reason === null) return /^\/\/\s*runs alone\b/im.test(text) ? 'misplaced' : undefined;
      return reason.groups?.whenLong === undefined ? 'alone' : 'long';
    };
    const suffixOf = (file: string) => {
      const kind = /\.(alone|long-alone|long\.alone)\.spec\.ts$/.exec(file)?.[1];
      return kind === undefined || kind === 'alone' ? kind : 'long';
    };
    expect(
      offenders(({ file, text }) => file.endsWith('.spec.ts') && suffixOf(file) !== suffixFor(text)),
    ).toEqual([]);
  });

  it('has no suffix of a spec without a meaning', () => {
    const known =
      /^([^.]+(\.properties)?|test\/[^.]+\.(alone|long-alone|long|long\.alone)|test\/flows\/[^.]+\.cluster(\.alone)?)\.spec\.ts$/;
    expect(offenders(({ file }) => file.endsWith('.spec.ts') && !known.test(file))).toEqual([]);
  });

  it('has no spec that no run would find', () => {
    const room = /^(core|gateway|processors|connectors|infra|console|test)\//;
    expect(offenders(({ file }) => file.endsWith('.spec.ts') && !room.test(file))).toEqual([]);
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
