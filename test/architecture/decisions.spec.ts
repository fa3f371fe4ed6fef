import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { documentAt } from './named-tests.ts';

const folder = 'docs/decisions/';
const decisions = readdirSync(new URL(`../../${folder}`, import.meta.url)).filter((file) => /^\d/.test(file));
const index = documentAt(`${folder}README.md`);

/** First a numbered title, then the status and the date. */
const HEAD =
  /^# (?<title>(?<number>\d+)\. \S.*)\n\nStatus: [^·\n]+ · Date: \d{4}-\d\d-\d\d(?:, last changed \d{4}-\d\d-\d\d)?\n/;

describe('a decision', () => {
  it.each(decisions)('states its number, title, status and date, and is listed in the index: %s', (file) => {
    const { number, title } = HEAD.exec(documentAt(`${folder}${file}`))?.groups ?? {};
    expect(file).toMatch(/^\d{4}-[a-z\d-]+\.md$/);
    expect(number).toBe(String(Number(file.slice(0, 4))));
    expect(index).toContain(`- [${title}](${file})\n`);
  });

  it('has a number of its own', () => {
    const numbers = decisions.map((file) => file.slice(0, 4));
    expect(numbers).toEqual([...new Set(numbers)]);
  });

  it('is not listed without its page', () => {
    const linked = [...index.matchAll(/\]\((\d[^)]*)\)/g)].map(([, file]) => file);
    expect(linked).toEqual(decisions);
  });
});
