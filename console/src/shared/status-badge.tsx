import { Badge } from '@mantine/core';
import type { ReactNode } from 'react';

export type Tone = 'good' | 'bad' | 'warning' | 'busy' | 'neutral';

const COLORS: Readonly<Record<Tone, string>> = {
  good: 'teal',
  bad: 'red',
  warning: 'yellow',
  busy: 'blue',
  neutral: 'gray',
};

interface Props {
  readonly tone: Tone;
  /** The status in words: the colour alone tells nothing. */
  readonly children: ReactNode;
}

/** A status as a word with a coloured dot: the text keeps the contrast of the page. */
export function StatusBadge({ tone, children }: Props) {
  return (
    <Badge variant="dot" color={COLORS[tone]} tt="none" fw={500} miw="max-content">
      {children}
    </Badge>
  );
}
