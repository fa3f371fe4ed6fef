import { Anchor, Code, List, Stack, Text } from '@mantine/core';
import { useMemo } from 'react';
import { blocksOf, type Inline, inlinesOf } from './markdown.ts';

/** Renders a description from the API, which is Markdown. */
export function MarkdownText({ children }: { readonly children: string }) {
  const blocks = useMemo(() => blocksOf(children), [children]);
  return (
    <Stack gap="xs">
      {blocks.map((block, index) =>
        block.kind === 'paragraph' ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change
          <Text key={index} size="sm">
            <Inlines content={block.content} />
          </Text>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change
          <List key={index} size="sm">
            {block.items.map((content, item) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the text does not change
              <List.Item key={item}>
                <Inlines content={content} />
              </List.Item>
            ))}
          </List>
        ),
      )}
    </Stack>
  );
}

/** One line of Markdown within other text. */
export function MarkdownLine({ children }: { readonly children: string }) {
  return <Inlines content={inlinesOf(children)} />;
}

function Inlines({ content }: { readonly content: readonly Inline[] }) {
  return content.map((inline, index) => {
    const key = `${index} ${inline.text}`;
    if (inline.kind === 'code') return <Code key={key}>{inline.text}</Code>;
    if (inline.kind === 'link')
      return (
        <Anchor key={key} href={inline.href} target="_blank" rel="noreferrer" inherit underline="always">
          {inline.text}
        </Anchor>
      );
    return inline.text;
  });
}
