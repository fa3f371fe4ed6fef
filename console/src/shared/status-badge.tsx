import { Badge, Tooltip } from '@mantine/core';
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
  /** The status in words, as colour alone is not accessible. */
  readonly children: ReactNode;
}

/** A status as a word with a coloured dot: the text keeps the contrast of the page. */
export function StatusBadge({ tone, children }: Props) {
  return (
    <Badge variant="dot" color={COLORS[tone]} tt="none" fw={500}>
      {children}
    </Badge>
  );
}

/** A state in a word and a tone, kept apart from where it is shown. */
export interface Status {
  readonly label: string;
  readonly tone: Tone;
  /** More details, shown on hover and on focus. */
  readonly detail?: string;
}

export function StatusLabel({ status: { label, tone, detail } }: { readonly status: Status }) {
  const badge = <StatusBadge tone={tone}>{label}</StatusBadge>;
  if (detail === undefined) return badge;
  return (
    <Tooltip label={detail} multiline maw={320} events={{ hover: true, focus: true, touch: true }}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the detail is read on focus too */}
      <span tabIndex={0}>{badge}</span>
    </Tooltip>
  );
}
