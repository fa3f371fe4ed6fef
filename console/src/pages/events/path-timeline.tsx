import { Group, Loader, Text, Timeline } from '@mantine/core';
import { durationText } from '../../shared/quantities.ts';
import type { Tone } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { PathStep } from './event-path.ts';

const COLORS: Readonly<Record<Tone, string>> = {
  good: 'teal',
  bad: 'red',
  warning: 'yellow',
  busy: 'blue',
  neutral: 'gray',
};

/** The path of an event as steps with their times. */
export function PathTimeline({ steps }: { readonly steps: readonly PathStep[] }) {
  return (
    <Timeline active={steps.length} bulletSize={18} lineWidth={2} aria-label="Path of the event">
      {steps.map(({ key, title, detail, tone, at, afterMs, isWaiting }) => (
        <Timeline.Item
          key={key}
          title={title}
          color={COLORS[tone]}
          bullet={isWaiting === true ? <Loader size={10} color="white" /> : undefined}
        >
          {detail !== undefined && detail !== '' && (
            <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
              {detail}
            </Text>
          )}
          {at !== undefined && (
            <Group gap="xs">
              <Text size="xs" c="dimmed" component="div">
                <Timestamp value={at} />
                {afterMs !== undefined && ` · ${durationText(afterMs)} after it was received`}
              </Text>
            </Group>
          )}
        </Timeline.Item>
      ))}
    </Timeline>
  );
}
