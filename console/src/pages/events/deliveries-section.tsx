import { Accordion, Button, Code, Group, Stack, Text, Timeline } from '@mantine/core';
import { useState } from 'react';
import { useMay } from '../../frame/workspace.tsx';
import type { EntityNames } from '../../shared/entity-names.ts';
import { durationText, plural } from '../../shared/quantities.ts';
import { StatusBadge } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { EventTrace, TracedDelivery, TracedRule } from './event-calls.ts';
import { CAUSE, DELIVERY_STATUS, noDeliveryText, WAITS_FOR } from './event-words.ts';
import { RedriveButton } from './redrive-button.tsx';
import { TransformationDiff } from './transformation-diff.tsx';

interface Props {
  readonly workspaceId: string;
  readonly trace: EventTrace;
  readonly destinations: EntityNames;
  /** The id of the open delivery, from the URL. */
  readonly opened: string | undefined;
  readonly onOpen: (deliveryId: string | undefined) => void;
  /** Called after a dead delivery was sent again, so that the page follows the result. */
  readonly onRedriven: () => void;
}

/** Each delivery of the event with each attempt. */
export function DeliveriesSection({ trace, destinations, opened, onOpen, ...props }: Props) {
  const deliveries = trace.rules.flatMap((rule) => rule.deliveries.map((delivery) => ({ rule, delivery })));
  if (deliveries.length === 0)
    return (
      <Text size="sm" c="dimmed">
        {noDeliveryText(trace)}
      </Text>
    );
  return (
    <Accordion
      variant="separated"
      value={opened ?? null}
      onChange={(id) => onOpen(id ?? undefined)}
      keepMounted={false}
    >
      {deliveries.map(({ rule, delivery }) => (
        <Accordion.Item key={delivery.id} value={delivery.id}>
          <Accordion.Control>
            <Group gap="sm" wrap="wrap">
              <StatusBadge tone={DELIVERY_STATUS[delivery.status].tone}>
                {DELIVERY_STATUS[delivery.status].text}
              </StatusBadge>
              <Text span fw={500} style={{ overflowWrap: 'anywhere' }}>
                {destinations.get(delivery.destination_id) ?? 'Destination'}
              </Text>
              <Text span size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                by rule {rule.name}
                {delivery.index > 0 && `, output ${delivery.index + 1} of its transformation`}
              </Text>
            </Group>
          </Accordion.Control>
          <Accordion.Panel>
            <DeliveryPanel {...props} event={trace.event} rule={rule} delivery={delivery} />
          </Accordion.Panel>
        </Accordion.Item>
      ))}
    </Accordion>
  );
}

interface PanelProps {
  readonly workspaceId: string;
  readonly event: EventTrace['event'];
  readonly rule: TracedRule;
  readonly delivery: TracedDelivery;
  readonly onRedriven: () => void;
}

function DeliveryPanel({ workspaceId, event, rule, delivery, onRedriven }: PanelProps) {
  const [isDiffShown, setDiffShown] = useState(false);
  const mayRedrive = useMay('editor');
  const { status, cause, reason, next_attempt_at, stage } = delivery;
  return (
    <Stack gap="md">
      {cause !== null && (
        <Text size="sm">
          {CAUSE[cause]}
          {reason !== null && ': '}
          {reason !== null && <Code>{reason}</Code>}
        </Text>
      )}
      {stage !== null && (
        <Text size="sm">
          {WAITS_FOR[stage]}
          {next_attempt_at !== null && (
            <>
              {': '}
              <Timestamp value={next_attempt_at} />
            </>
          )}
        </Text>
      )}
      <Attempts delivery={delivery} />
      <Group>
        {status === 'dead' && mayRedrive && (
          <RedriveButton workspaceId={workspaceId} deliveryId={delivery.id} onRedriven={onRedriven} />
        )}
        <Button
          variant="default"
          size="xs"
          aria-expanded={isDiffShown}
          onClick={() => setDiffShown((shown) => !shown)}
        >
          {isDiffShown ? 'Hide what was sent' : 'Compare with what was sent'}
        </Button>
      </Group>
      {isDiffShown && (
        <TransformationDiff workspaceId={workspaceId} event={event} rule={rule} delivery={delivery} />
      )}
    </Stack>
  );
}

function Attempts({ delivery: { attempts, first_try } }: { readonly delivery: TracedDelivery }) {
  if (first_try)
    return (
      <Text size="sm" c="dimmed">
        Delivered at the first attempt. No record is kept of such an attempt.
      </Text>
    );
  if (attempts.length === 0)
    return (
      <Text size="sm" c="dimmed">
        No attempt yet.
      </Text>
    );
  return (
    <Stack gap="xs">
      <Text size="sm" fw={500}>
        {plural(attempts.length, 'attempt')}
      </Text>
      <Timeline bulletSize={12} lineWidth={2} active={attempts.length} aria-label="Attempts">
        {attempts.map(({ at, outcome, status, reason, response, duration_ms }) => (
          <Timeline.Item
            key={at}
            color={outcome === 'delivered' ? 'teal' : outcome === 'dead' ? 'red' : 'yellow'}
            title={
              <Text size="sm" fw={500}>
                {outcome === 'delivered'
                  ? 'Delivered'
                  : outcome === 'dead'
                    ? 'Given up'
                    : 'Failed, to be tried again'}
                {status !== null && ` · HTTP ${status}`} · {durationText(duration_ms)}
              </Text>
            }
          >
            <Text size="xs" c="dimmed" component="div">
              <Timestamp value={at} />
            </Text>
            {reason !== null && <Text size="sm">{reason}</Text>}
            {response !== null && response !== '' && (
              <Code block mah={160} tabIndex={0} role="region" aria-label="Start of the answer">
                {response}
              </Code>
            )}
          </Timeline.Item>
        ))}
      </Timeline>
    </Stack>
  );
}
