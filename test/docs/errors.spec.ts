import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEAD_CAUSES } from '@tributary/core';
import { expect, it } from 'vitest';
import {
  argumentsOfNew,
  codesOfErrors,
  logMessages,
  messagesOfClasses,
  PLACEHOLDER,
  pairsIn,
  returnsOf,
  root,
  sources,
  unionMembers,
  valuesNamed,
} from './texts-in-code.ts';

const page = readFileSync(join(root, 'docs/reference/errors.md'), 'utf8');

/** Texts that state cause and remedy themselves, one a line. */
const plain = readFileSync(join(root, 'test/docs/plain-texts.txt'), 'utf8').trim().split('\n');

/** What the lists below a heading explain, as code, with every placeholder in one form. */
function documented(heading: string): readonly string[] {
  const [, rest = ''] = page.split(`\n${heading}\n`);
  const level = heading.split(' ', 1)[0]?.length ?? 0;
  const [section = ''] = rest.split(new RegExp(`^#{1,${level}} `, 'm'));
  // The responses of the API begin with the status.
  const explained = [...section.matchAll(/^- (?:\d+ )?((?:(``?) ?.+? ?\2(?!`)(?:, )?)+): /gm)];
  return explained.flatMap(([, texts = '']) =>
    [...texts.matchAll(/(``?) ?(.+?) ?\1(?!`)/g)].map(([, , code = '']) => code),
  );
}

/** Texts with words in them: of others, nothing is known before run time. */
const stated = (texts: readonly string[]) =>
  [...new Set(texts.map((text) => text.replaceAll(/\s+/g, ' ')))]
    .filter((text) => /\p{L}{2}/u.test(text.replaceAll(PLACEHOLDER, '')))
    .toSorted();

/** A text without the code in parentheses at its end. */
const bare = (text: string) => text.replace(` (${PLACEHOLDER})`, '');

/** The texts of the code that the page lacks. */
function missing(texts: readonly string[], heading: string): readonly string[] {
  const known = new Set([...plain, ...documented(heading)].map(bare));
  const isKnown = (text: string) =>
    // Some texts continue another one.
    text.startsWith(PLACEHOLDER)
      ? [...known].some((one) => one.endsWith(text.slice(PLACEHOLDER.length)))
      : known.has(text);
  return stated(texts).filter((text) => !isKnown(bare(text)));
}

const everything = sources('core', 'gateway', 'processors', 'connectors', 'infra/adapters', 'infra/runtime');
const gateway = sources('gateway');
const senders = sources('connectors', 'processors');

const reasons = [
  ...valuesNamed(senders, 'reason', 'refusal', 'NOT_VALID'),
  ...pairsIn(senders, 'REASONS', 'REFUSALS', 'REFUSALS_OF_ROWS', 'ABOUT_RECORDS'),
  ...returnsOf(senders, 'disabledBecause', 'pausedBecause'),
];

it.each([
  ['## Responses of the API', argumentsOfNew(gateway, 'ApiError', 1), 14],
  [
    '### Reasons of a conflict',
    [...unionMembers(everything, 'ConflictReason'), ...unionMembers(everything, 'ConflictCode')],
    10,
  ],
  ['### Causes of dead deliveries', DEAD_CAUSES, 6],
  ['### Reasons of failed attempts', reasons, 50],
  [
    '## Starts and commands',
    messagesOfClasses(sources('infra/runtime'), /(Operator|Config|Tributary)Error|extends Error/),
    5,
  ],
  ['## Warnings and errors in the log', logMessages(everything), 100],
  ['## Codes of the errors in the code', codesOfErrors(everything), 24],
] as const)('docs/reference/errors.md has all that the code states of: %s', (heading, texts, least) => {
  expect(stated(texts).length).toBeGreaterThanOrEqual(least);
  expect(missing(texts, heading)).toEqual([]);
});

it('documents no log line that the code no longer writes', () => {
  const written = new Set(stated(logMessages(everything)));
  expect(
    documented('## Warnings and errors in the log').filter(
      (text) => text.includes(' ') && !written.has(text),
    ),
  ).toEqual([]);
  const ends = stated(
    messagesOfClasses(sources('infra/runtime'), /(Operator|Config|Tributary)Error|extends Error/),
  );
  const used = new Set([...written, ...ends, ...stated(reasons)].map(bare));
  expect(plain.filter((text) => !used.has(bare(text)))).toEqual([]);
});
