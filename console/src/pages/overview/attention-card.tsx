import { Group, List, Skeleton, Stack, Text, ThemeIcon } from '@mantine/core';
import { CheckIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Schemas } from '../../api/client.ts';
import { useEntityNames } from '../../shared/entity-names.ts';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import type { Environment } from '../../shared/event-fields.ts';
import { TextLink } from '../../shared/links.tsx';
import { numberText, plural } from '../../shared/quantities.ts';
import { StatusBadge, type Tone } from '../../shared/status-badge.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { statusOf } from '../destinations/destination-status.ts';
import { Card } from './card.tsx';
import { NumberButton } from './number-button.tsx';
import { deadQuery, type FunnelCounts, healthQuery, sourcesQuery } from './overview-calls.ts';
import { silentSourcesOf } from './silent-sources.ts';
import { hiddenByStages, summaryOf } from './summary.ts';

const SHOWN_GROUPS = 3;

interface Props {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly totals: FunnelCounts;
  readonly behind: NonNullable<Schemas['Funnel']['behind']>;
}

interface Item {
  readonly key: string;
  readonly tone: Tone;
  readonly word: string;
  readonly text: ReactNode;
}

/**
 * Stages that are behind, dead deliveries, destinations in trouble, rejected events and silent sources, each with a link to
 * its page.
 */
export function AttentionCard(props: Props) {
  const { workspaceId, environment, totals, behind } = props;
  const dead = useQuery(deadQuery(workspaceId));
  const health = useQuery(healthQuery(workspaceId));
  const sources = useQuery(sourcesQuery({ workspaceId, environment }));
  const queries = [dead, health, sources];
  const failed = queries.find(({ error, data }) => error !== null && data === undefined);
  const silent = silentSourcesOf(sources.data?.groups ?? [], Date.now());
  const groups = dead.data?.groups ?? [];
  const troubled = health.data?.troubled ?? [];
  const summary = summaryOf(totals);
  const destinations = useEntityNames(workspaceId, 'destination', [
    ...groups.slice(0, SHOWN_GROUPS).map(({ destination_id }) => destination_id),
    ...troubled.map(({ id }) => id),
  ]);
  const sourceNames = useEntityNames(
    workspaceId,
    'source',
    silent.map(({ sourceId }) => sourceId),
  );
  const items: readonly Item[] = [
    ...hiddenByStages(behind).map(({ stage, text }) => ({
      key: stage,
      tone: 'bad' as const,
      word: `Stage ${stage} is behind`,
      text,
    })),
    ...troubled.map((one) => ({
      key: one.id,
      tone: statusOf(one).tone,
      word: statusOf(one).label,
      text: (
        <>
          <TextLink
            underline="always"
            size="sm"
            to="/w/$workspaceId/destinations/$destinationId"
            params={{ workspaceId, destinationId: one.id }}
          >
            {destinations.get(one.id) ?? 'A destination'}
          </TextLink>
          : {statusOf(one).detail}
        </>
      ),
    })),
    ...groups.slice(0, SHOWN_GROUPS).map(({ group, destination_id, deliveries, failure }) => ({
      key: group,
      tone: 'bad' as const,
      word: 'Dead deliveries',
      text: (
        <>
          <TextLink
            underline="always"
            size="sm"
            to="/w/$workspaceId/deliveries"
            params={{ workspaceId }}
            search={{ tab: 'list', status: 'dead', group }}
          >
            {plural(deliveries, 'delivery', 'deliveries')} to{' '}
            {destinations.get(destination_id) ?? 'a destination'}
          </TextLink>
          : {failure}
        </>
      ),
    })),
    ...(groups.length > SHOWN_GROUPS
      ? [
          {
            key: 'more groups',
            tone: 'bad' as const,
            word: 'Dead deliveries',
            text: (
              <TextLink
                underline="always"
                size="sm"
                to="/w/$workspaceId/deliveries"
                params={{ workspaceId }}
                search={{ status: 'dead' }}
              >
                {plural(restOf(groups), 'delivery', 'deliveries')} of other groups
                {dead.data?.more === true && ' and more'}
              </TextLink>
            ),
          },
        ]
      : []),
    ...((totals.rejected ?? 0) > 0
      ? [
          {
            key: 'rejected',
            tone: 'bad' as const,
            word: 'Rejected events',
            text: (
              <>
                <NumberButton measure="rejected">{plural(totals.rejected ?? 0, 'event')}</NumberButton>{' '}
                violated a contract that blocks
              </>
            ),
          },
        ]
      : []),
    ...((totals.warned ?? 0) > 0
      ? [
          {
            key: 'warned',
            tone: 'warning' as const,
            word: 'Violations',
            text: (
              <>
                <NumberButton measure="warned">{plural(totals.warned ?? 0, 'event')}</NumberButton> violated a
                contract and {totals.warned === 1 ? 'was' : 'were'} accepted
              </>
            ),
          },
        ]
      : []),
    ...((totals.failed ?? 0) > 0
      ? [
          {
            key: 'failed',
            tone: 'bad' as const,
            word: 'Transformations',
            text: (
              <>
                <NumberButton measure="failed">{plural(totals.failed ?? 0, 'run')}</NumberButton> failed
              </>
            ),
          },
        ]
      : []),
    ...silent.map(({ sourceId, quietHours, lastHour }) => ({
      key: sourceId,
      tone: 'warning' as const,
      word: 'Silent source',
      text: (
        <>
          <TextLink
            underline="always"
            size="sm"
            to="/w/$workspaceId/keys"
            params={{ workspaceId }}
            search={{ tab: 'sources' }}
          >
            {sourceNames.get(sourceId) ?? 'A source'}
          </TextLink>{' '}
          sent nothing for {numberText(quietHours)} hours, last in the hour of{' '}
          <Timestamp value={new Date(lastHour).toISOString()} />
        </>
      ),
    })),
  ];
  const isLoading = failed === undefined && queries.some(({ data }) => data === undefined);
  return (
    <Card title="Needs attention">
      <Stack gap="sm">
        {failed !== undefined && <ErrorAlert error={failed.error} retry={() => void failed.refetch()} />}
        {items.length > 0 && <Items items={items} />}
        {isLoading && <Skeleton height={24} role="status" aria-label="Loading" />}
        {items.length === 0 && !isLoading && failed === undefined && (
          <Group gap="xs">
            {summary.isCalm && (
              <ThemeIcon color="teal" radius="xl" size="sm" aria-hidden>
                <CheckIcon />
              </ThemeIcon>
            )}
            <Text>
              {summary.isCalm && 'Nothing. '}
              {summary.text}
            </Text>
          </Group>
        )}
      </Stack>
    </Card>
  );
}

function Items({ items }: { readonly items: readonly Item[] }) {
  return (
    <List listStyleType="none" spacing="xs">
      {items.map(({ key, tone, word, text }) => (
        <List.Item key={key}>
          <Group gap="xs" align="baseline">
            <StatusBadge tone={tone}>{word}</StatusBadge>
            <Text size="sm" component="div" style={{ overflowWrap: 'anywhere' }}>
              {text}
            </Text>
          </Group>
        </List.Item>
      ))}
    </List>
  );
}

function restOf(groups: readonly { readonly deliveries: number }[]): number {
  return groups.slice(SHOWN_GROUPS).reduce((sum, { deliveries }) => sum + deliveries, 0);
}
