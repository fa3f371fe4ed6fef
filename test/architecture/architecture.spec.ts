import { describe, expect, it } from 'vitest';
import { missingFrom, undeclaredTypes } from './named-code.ts';
import { documentAt, faultsOf, rowsBelow } from './named-tests.ts';

const PATH = 'docs/architecture.md';
const architecture = documentAt(PATH);

describe('docs/architecture.md', () => {
  it('names files, functions and documents that are there', () => {
    expect(missingFrom(architecture, PATH)).toEqual([]);
  });

  it('names types in its glossary that are there', () => {
    const [, rest = ''] = architecture.split('\n## Glossary\n');
    const [glossary = ''] = rest.split('\n## ');
    expect(glossary).toMatch(/^- stage: /m);
    expect(undeclaredTypes(glossary)).toEqual([]);
  });

  it('names for each guarantee a test that is there', () => {
    const rows = rowsBelow('Guarantees', architecture);
    expect(rows.length).toBeGreaterThan(10);
    expect(faultsOf(rows)).toEqual([]);
  });
});

describe('the references of a document', () => {
  it.each([
    'core/log/stage.ts',
    'core/log/stage.ts#FlowStage',
    'core/log/stage.ts#FlowStage.handle',
    'core/log',
    'infra/adapters/<port>/<engine>',
    '.dependency-cruiser.mjs',
  ])('is there: %s', (name) => expect(missingFrom(`See \`${name}\`.`, PATH)).toEqual([]));

  it.each([
    ['a file that is gone', 'core/log/gone.ts'],
    ['a declaration that was renamed', 'core/log/stage.ts#FlowStageThatWas'],
    ['a member that was renamed', 'core/log/stage.ts#FlowStage.handleThatWas'],
    ['a member of another type', 'core/log/stage.ts#BatchStage.handle'],
  ])('is missed: %s', (_, name) => expect(missingFrom(`See \`${name}\`.`, PATH)).toEqual([`\`${name}\``]));

  it('is missed: a linked document that is gone', () => {
    expect(missingFrom('[3](decisions/gone.md) and [guide](guides/first-event.md#first)', PATH)).toEqual([
      'decisions/gone.md',
    ]);
  });

  it('is missed: a type that was renamed', () => {
    expect(undeclaredTypes('`FlowStage`, `FlowStageThatWas`')).toEqual(['FlowStageThatWas']);
  });
});
