import { Group, Loader, Text, Timeline } from '@mantine/core';
import { CheckIcon, Cross2Icon, ExclamationTriangleIcon, MinusIcon } from '@radix-ui/react-icons';
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

const ICONS = {
  good: CheckIcon,
  bad: Cross2Icon,
  warning: ExclamationTriangleIcon,
  busy: MinusIcon,
  neutral: MinusIcon,
} as const;

/** The path of an event as steps with their times. */
export function PathTimeline({ steps }: { readonly steps: readonly PathStep[] }) {
  return (
    <Timeline active={steps.length} bulletSize={20} lineWidth={2} aria-label="Path of the event">
      {steps.map(({ key, title, detail, tone, at, afterMs, isWaiting }) => (
        <Timeline.Item
          key={key}
          title={title}
          color={COLORS[tone]}
          bullet={<Bullet tone={tone} isWaiting={isWaiting === true} />}
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

function Bullet({ tone, isWaiting }: { readonly tone: Tone; readonly isWaiting: boolean }) {
  if (isWaiting) return <Loader size={10} color="white" aria-hidden />;
  const Icon = ICONS[tone];
  return <Icon width={12} height={12} aria-hidden />;
}
