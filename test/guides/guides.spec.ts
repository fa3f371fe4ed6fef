import { dirname } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresServer } from '../helpers/postgres.ts';
import { findProgram, pythonWithSdks } from '../sdks/programs.ts';
import { guides, parseSteps, readGuide } from './blocks.ts';
import { Reader } from './reader.ts';

/*
 * Does what the guides say, from the top: each guide in a terminal of its own, all in one workspace of one server
 * that was started as the README says. Every block of a guide is run, saved or printed.
 */

const python = findProgram('python3');
const chromium = findProgram('chromium', 'google-chrome');
const postgres = await postgresServer();

/** Programs that a guide needs beside those of Tributary. */
const NEEDS: Readonly<Record<string, readonly unknown[]>> = {
  'server-sdks': [python],
  'browser-site': [chromium],
  'a-shop': [chromium, postgres],
  warehouses: [postgres],
};
/** Sections that install packages of their own: for the long form. */
const LONG_SECTIONS: Readonly<Record<string, string>> = { 'query-your-events': 'With dbt' };
const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** The calls that a guide may take, where it promises a number. */
const CALLS: Readonly<Record<string, number>> = { 'a-shop': 15 };
const SETUP =
  "api=http://127.0.0.1:8080 workspace='<workspace>' key='<write key>'\n. docs/guides/terminal.sh\n";

describe('a guide', () => {
  it.each(guides())('%s states its result and its requirements, and has one setup for all', (guide) => {
    const text = readGuide(guide);
    expect(text.split('\n\n').slice(1, 3).join('\n')).toMatch(/^At the end [\s\S]*You\s+need\s/);
    if (guide !== 'first-event')
      expect(parseSteps(text)[0]).toMatchObject({ code: expect.stringContaining(SETUP) });
  });

  it.each(guides())('%s runs, reads or serves each file that it has saved', (guide) => {
    const steps = parseSteps(readGuide(guide));
    const commands = steps.flatMap((step) => (step.does === 'run' ? [step.code] : []));
    const unused = steps.filter(
      (step) =>
        step.does === 'save' &&
        !commands.some((code) => code.includes(step.file) || isFolderRead(step.file, code)),
    );
    expect(unused).toEqual([]);
  });
});

describe('the guide', () => {
  let reader: Reader;
  beforeAll(async () => {
    const interpreter = python === undefined ? undefined : pythonWithSdks(python);
    reader = await Reader.start({ curl: findProgram('curl') ?? '', chromium, python: interpreter });
  });
  afterAll(async () => {
    await reader.close();
    await postgres?.stop();
  });

  for (const guide of guides())
    it.skipIf(NEEDS[guide]?.includes(undefined))(`${guide} works as written`, async () => {
      const most = CALLS[guide];
      const skipped = isLong ? undefined : LONG_SECTIONS[guide];
      for (const { difference, faults, calls } of await reader.follow(
        guide,
        wordsOf(postgres?.url),
        skipped,
      )) {
        expect({ difference, faults }).toEqual({ difference: undefined, faults: [] });
        if (most === undefined) continue;
        expect(calls.filter((call) => !call.startsWith('0 '))).toEqual([]);
        expect(calls.length, calls.join('\n')).toBeLessThanOrEqual(most);
      }
    });
});

/** Whether commands fill the folder of a page, which a server of the guide serves, or run the project that has the file. */
function isFolderRead(file: string, code: string): boolean {
  const project = /--project-dir (\S+)/.exec(code)?.[1];
  return (
    (file.endsWith('.html') && code.includes(`${dirname(file)}/`)) ||
    (project !== undefined && file.startsWith(`${project}/`))
  );
}

/** The words that stand for parts of the address of a database. */
function wordsOf(url: string | undefined): Readonly<Record<string, string>> {
  if (url === undefined) return {};
  const { port, username, password } = new URL(url);
  return { '<database port>': port, '<database user>': username, '<database password>': password };
}
