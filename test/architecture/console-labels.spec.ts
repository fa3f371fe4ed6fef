import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { nodesOf, root } from '../docs/texts-in-code.ts';

/** Elements, and components of Mantine, that become a `div` or a `span` unless they are given a role or another element. */
const WITHOUT_ROLE = new Set([
  ...'Box Center Flex Group Loader Paper Skeleton Stack Text div span'.split(' '),
]);
const LABELS = ['aria-label', 'aria-labelledby'];
const ROLES = ['role', 'component'];

/** The elements of a source whose label screen readers ignore, because nothing gives them a role: `tag in line`. */
function labelsWithoutRole(text: string): readonly string[] {
  const file = ts.createSourceFile('page.tsx', text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  return [...nodesOf([file])].filter(ts.isJsxOpeningLikeElement).flatMap((element) => {
    const tag = element.tagName.getText();
    const names = element.attributes.properties.map((attribute) => attribute.name?.getText());
    const hasOneOf = (wanted: readonly string[]) => wanted.some((name) => names.includes(name));
    if (!WITHOUT_ROLE.has(tag) || !hasOneOf(LABELS) || hasOneOf(ROLES)) return [];
    return [`${tag} in ${file.getLineAndCharacterOfPosition(element.getStart()).line + 1}`];
  });
}

describe('the labels of the console', () => {
  it('stood on elements without a role, where screen readers ignore them', () => {
    const found = globSync('console/src/**/*.tsx', { cwd: root }).flatMap((path) =>
      labelsWithoutRole(readFileSync(join(root, path), 'utf8')).map((where) => `${path}: ${where}`),
    );
    expect(found).toEqual([]);
  });

  it.each([
    ['<Loader size="xs" aria-label="Looking" />', ['Loader in 1']],
    ['<Loader role="status" aria-label="Looking" />', []],
    [
      '<Stack component="section" aria-labelledby="about"><span aria-label="none">-</span></Stack>',
      ['span in 1'],
    ],
  ])('are judged by the attributes beside them: %s', (text, expected) => {
    expect(labelsWithoutRole(text)).toEqual(expected);
  });
});
