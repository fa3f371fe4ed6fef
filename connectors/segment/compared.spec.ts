import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { DEFINITIONS } from './connector.ts';
import { COMPARED } from './settings.ts';

test('the kinds that are marked as compared are those of the document, and are offered', () => {
  const text = readFileSync(new URL('../../docs/reference/segment-vendors.md', import.meta.url), 'utf8');
  const [whole = '', inPart = ''] = text.split('\n## ');
  const kindsIn = (part: string) => [...part.matchAll(/`(segment-[\w-]+)`/g)].map(([, type = '']) => type);
  const compared = DEFINITIONS.filter(({ destination }) => Object.hasOwn(COMPARED, destination));
  expect(compared).toHaveLength(Object.keys(COMPARED).length);
  expect(kindsIn(whole).sort()).toEqual(compared.map(({ type }) => type).sort());
  expect(DEFINITIONS.map(({ type }) => type)).toEqual(expect.arrayContaining(kindsIn(inPart)));
  for (const day of new Set(Object.values(COMPARED))) expect(whole).toContain(`on ${day}`);
});
