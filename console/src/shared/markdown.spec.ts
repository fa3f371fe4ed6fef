import { expect, it } from 'vitest';
import { blocksOf, inlinesOf } from './markdown.ts';

it('reads paragraphs, lists, code and links', () => {
  const text = 'Sends `POST`, see [Webhooks](https://w.example).\n\nIts presets:\n- One\n- Two `x`\n\nEnd';
  expect(blocksOf(text)).toEqual([
    {
      kind: 'paragraph',
      content: [
        { kind: 'text', text: 'Sends ' },
        { kind: 'code', text: 'POST' },
        { kind: 'text', text: ', see ' },
        { kind: 'link', text: 'Webhooks', href: 'https://w.example' },
        { kind: 'text', text: '.' },
      ],
    },
    { kind: 'paragraph', content: [{ kind: 'text', text: 'Its presets:' }] },
    {
      kind: 'list',
      items: [
        [{ kind: 'text', text: 'One' }],
        [
          { kind: 'text', text: 'Two ' },
          { kind: 'code', text: 'x' },
        ],
      ],
    },
    { kind: 'paragraph', content: [{ kind: 'text', text: 'End' }] },
  ]);
});

it('makes links of https alone', () => {
  expect(inlinesOf('[here](javascript:alert)')).toEqual([{ kind: 'text', text: 'here' }]);
  expect(inlinesOf('[there](#place)')).toEqual([{ kind: 'text', text: 'there' }]);
});
