import { Code, Spoiler, Text } from '@mantine/core';

/** Longer values are folded. */
const LONG = 300;

/** A value as text: input of people is never markup here. */
export function ValueText({ value }: { readonly value: unknown }) {
  const isText = typeof value === 'string';
  const text = isText ? value : JSON.stringify(value, undefined, isDeep(value) ? 2 : undefined);
  const shown = isText ? (
    <Text span inherit style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      {text === '' ? '""' : text}
    </Text>
  ) : (
    <Code block={isDeep(value)} style={{ overflowWrap: 'anywhere' }}>
      {text}
    </Code>
  );
  if (text.length <= LONG) return shown;
  return (
    <Spoiler maxHeight={120} showLabel="Show all" hideLabel="Show less">
      {shown}
    </Spoiler>
  );
}

function isDeep(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}
