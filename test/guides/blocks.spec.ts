import { describe, expect, it } from 'vitest';
import { isShown, parseSteps, UnusableGuide } from './blocks.ts';

describe('the steps of a guide', () => {
  it('are its commands with their output, its files, and the pages to open', () => {
    const text = [
      '```sh\necho 1\n```\nprints\n```text\n1\n```',
      '```js a/b.mjs\n1;\n```',
      'Open <http://127.0.0.1:9000/> now.',
      '```sh\ntrue\n```',
    ].join('\n\n');
    expect(parseSteps(text)).toEqual([
      { does: 'run', code: 'echo 1\n', prints: { language: 'text', text: '1\n' } },
      { does: 'save', file: 'a/b.mjs', text: '1;\n' },
      { does: 'open', address: 'http://127.0.0.1:9000/' },
      { does: 'run', code: 'true\n', prints: undefined },
    ]);
  });

  it.each([
    ['a language that nothing runs', '```console\nnpm start\n```'],
    ['no language', '```\na\n```'],
    ['a script without a file', '```js\n1;\n```'],
    ['an output without a command', '```text\n1\n```'],
    ['a second output', '```sh\n:\n```\n```text\n1\n```\n```text\n1\n```'],
    ['a block that has no end', '```sh\n:\n```\n```sh\n:\n'],
    ['a block between other fences', '```sh\n:\n```\n~~~sh\n:\n~~~'],
    ['no block', 'Text.'],
  ])('are refused for %s', (_, text) => {
    expect(() => parseSteps(text)).toThrow(UnusableGuide);
  });

  it('show an output whole, but for the parts they leave open', () => {
    expect(isShown({ language: 'json', text: '{ "id": "…" }' }, '{"id":"7"}')).toBe(true);
    expect(isShown({ language: 'json', text: '{ "id": "…" }' }, '{"id":"7"} and more')).toBe(false);
    expect(isShown({ language: 'text', text: 'a b\n' }, 'a  b\n')).toBe(false);
  });
});
