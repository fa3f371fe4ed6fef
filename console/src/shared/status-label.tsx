import { Tooltip } from '@mantine/core';
import { StatusBadge, type Tone } from './status-badge.tsx';

/** A state in a word and a tone, kept apart from where it is shown. */
export interface Status {
  readonly label: string;
  readonly tone: Tone;
  /** More of it, on hover and on focus. */
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
