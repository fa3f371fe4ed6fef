import { Group, Progress, Stack, Text } from '@mantine/core';
import { type EntityNames, useEntityNames } from '../../shared/entity-names.ts';
import { numberText, shareText } from '../../shared/quantities.ts';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { type FunnelPart, type FunnelStep, funnelStepsOf } from './funnel-steps.ts';
import { NumberButton } from './number-button.tsx';
import type { FunnelCounts } from './overview-calls.ts';
import { MEASURE, reasonText } from './words.ts';

/** Maximum number of reasons shown for a number; the others are only counted. */
const MAX_REASONS = 4;

const UNITS: Readonly<Record<FunnelStep['counts'], string>> = {
  events: 'events',
  rules: 'rule matches',
  deliveries: 'deliveries',
};

interface Props {
  readonly workspaceId: string;
  readonly totals: FunnelCounts;
}

/** The steps from received to delivered, each with its losses and their reasons. Each number opens the events behind it. */
export function FunnelCard({ workspaceId, totals }: Props) {
  const steps = funnelStepsOf(totals);
  const rejectedBy = (totals.reasons ?? [])
    .filter(({ measure }) => measure === 'rejected')
    .map(({ reason }) => reason.split('/')[0]);
  const contracts = useEntityNames(workspaceId, 'contract', rejectedBy);
  return (
    <Stack gap="md">
      {steps.map((step) => (
        <Step key={step.title} step={step} whole={wholeOf(steps, step)} contracts={contracts} />
      ))}
      <Text size="xs" c="dimmed">
        Numbers are about the events received in this time, whenever their outcome was decided. From the third
        step on an event counts once for each rule that takes it.
      </Text>
    </Stack>
  );
}

/** Steps of events are shares of the received events; steps of rules and deliveries are shares of the matches of rules. */
function wholeOf(steps: readonly FunnelStep[], { counts }: FunnelStep): number {
  const first = steps.find((step) => (counts === 'events') === (step.counts === 'events'));
  return first?.count ?? 0;
}

interface StepProps {
  readonly step: FunnelStep;
  readonly whole: number;
  readonly contracts: EntityNames;
}

function Step({ step, whole, contracts }: StepProps) {
  const { title, count, measures, left, notes, underWay, counts } = step;
  const [measure] = measures;
  return (
    <Stack gap={4}>
      <Group justify="space-between" gap="xs" align="baseline">
        <Text fw={600}>{title}</Text>
        <Text size="sm" c="dimmed" component="div">
          {measure === undefined || count === 0 ? (
            numberText(count)
          ) : (
            <NumberButton measure={measure} size="md">
              {numberText(count)}
            </NumberButton>
          )}{' '}
          {UNITS[counts]}
        </Text>
      </Group>
      <Progress
        value={whole === 0 ? 0 : Math.min(100, (count / whole) * 100)}
        aria-label={`${title}: ${shareText(count, whole)}`}
        color="blue"
        size="md"
      />
      {left.map((part) => (
        <Part key={part.measure} part={part} contracts={contracts} isLoss />
      ))}
      {notes.map((part) => (
        <Part key={part.measure} part={part} contracts={contracts} />
      ))}
      {underWay > 0 && (
        <div>
          <StatusBadge tone="busy">{numberText(underWay)} under way to this step</StatusBadge>
        </div>
      )}
    </Stack>
  );
}

interface PartProps {
  readonly part: FunnelPart;
  readonly contracts: EntityNames;
  /** Whether these events left the funnel at the step; otherwise the number is a note. */
  readonly isLoss?: boolean;
}

function Part({ part: { measure, count, reasons }, contracts, isLoss = false }: PartProps) {
  const shown = reasons.slice(0, MAX_REASONS);
  return (
    <Group gap="sm" pl="md" align="baseline">
      <NumberButton measure={measure}>
        {isLoss ? '−' : ''}
        {numberText(count)} {MEASURE[measure]}
      </NumberButton>
      {shown.map(({ reason, count }) => (
        <NumberButton key={reason} measure={measure} reason={reason} size="xs">
          {numberText(count)} {reasonText(measure, reason, contracts)}
        </NumberButton>
      ))}
      {reasons.length > shown.length && (
        <Text size="xs" c="dimmed">
          and {reasons.length - shown.length} more reasons
        </Text>
      )}
    </Group>
  );
}
