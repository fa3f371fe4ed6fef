import { Alert, Code, Group, Skeleton, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useMay, useWorkspaceId } from '../../frame/workspace.tsx';
import { CopyField } from '../../shared/copy-field.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { Page } from '../../shared/page.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { RawKey, useRawKey } from '../../shared/raw-key.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { ENVIRONMENT_TEXTS, EnvironmentBadge } from './environment.tsx';
import { FirstEvent } from './first-event.tsx';
import { sourcesQuery, type WriteKey, writeKeyQuery } from './queries.ts';
import { RevokeWriteKey } from './revoke-write-key.tsx';
import { PLACEHOLDER } from './snippets.ts';
import { SnippetsPanel } from './snippets-panel.tsx';

/** Poll interval until the first event arrives, ms. */
const WAITING_POLL_MS = 1_500;
const POLL_MS = 15_000;

/** One write key: its snippets, its first event, its settings. */
export function WriteKeyPage() {
  const workspaceId = useWorkspaceId();
  const { keyId } = useParams({ from: '/w/$workspaceId/keys/$keyId' });
  const query = useQuery({
    ...writeKeyQuery(workspaceId, keyId),
    refetchInterval: ({ state: { data } }) =>
      data?.status === 'active' && data.last_used_at === null ? WAITING_POLL_MS : POLL_MS,
  });
  if (query.data === null)
    return (
      <Page title="Write key">
        <EmptyState title="There is no such write key in this workspace">
          <ButtonLink to="/w/$workspaceId/keys" params={{ workspaceId }}>
            All write keys
          </ButtonLink>
        </EmptyState>
      </Page>
    );
  const back = (
    <TextLink to="/w/$workspaceId/keys" params={{ workspaceId }} size="sm">
      All write keys
    </TextLink>
  );
  return (
    <Page
      title={query.data?.name ?? 'Write key'}
      description={back}
      actions={<Actions writeKey={query.data} />}
    >
      <QueryState query={query}>{(key) => key !== null && <Content writeKey={key} />}</QueryState>
    </Page>
  );
}

function Actions({ writeKey }: { readonly writeKey: WriteKey | undefined }) {
  const isAdmin = useMay('admin');
  return writeKey !== undefined && isAdmin && <RevokeWriteKey writeKey={writeKey} />;
}

function Content({ writeKey }: { readonly writeKey: WriteKey }) {
  const rawKey = useRawKey(writeKey.id);
  const isActive = writeKey.status === 'active';
  return (
    <Stack gap="lg">
      {!isActive && (
        <Alert color="red" variant="light" title="Revoked">
          Requests with this key are refused (401). Events received with it before are kept.
        </Alert>
      )}
      {isActive && rawKey !== undefined && <RawKey value={rawKey} />}
      <FirstEvent writeKey={writeKey} />
      {isActive && <Sending writeKey={writeKey} rawKey={rawKey} />}
      <About writeKey={writeKey} />
    </Stack>
  );
}

interface SendingProps {
  readonly writeKey: WriteKey;
  /** Absent unless the key was created in this tab. */
  readonly rawKey: string | undefined;
}

/** How the holder of the key sends: the address for another service where its source receives webhooks, else code. */
function Sending({ writeKey, rawKey }: SendingProps) {
  const { source_id, webhooks_only } = writeKey;
  const { data: sources } = useQuery({ ...sourcesQuery(useWorkspaceId()), enabled: source_id !== null });
  const webhook = sources?.find(({ id }) => id === source_id)?.webhook ?? undefined;
  return (
    <>
      {webhook !== undefined && (
        <Stack component="section" gap="sm" aria-labelledby="address">
          <Title order={2} size="h4" id="address">
            Receive webhooks
          </Title>
          <Text size="sm">
            Enter this address in the settings of the service that sends. It contains the key
            {rawKey === undefined ? ', which was shown when it was created.' : '.'}
          </Text>
          <CopyField
            value={`${location.origin}/webhooks/${rawKey ?? PLACEHOLDER}/${webhook.kind}`}
            label="the address"
            block
          />
          <Text size="sm">
            Each request is a track event with the payload as its properties. A{' '}
            <TextLink
              underline="always"
              to="/w/$workspaceId/transformations/new"
              params={{ workspaceId: writeKey.workspace_id }}
            >
              transformation
            </TextLink>{' '}
            makes it an identify or another event; mappings of{' '}
            <TextLink
              underline="always"
              to="/w/$workspaceId/destinations"
              params={{ workspaceId: writeKey.workspace_id }}
            >
              destinations
            </TextLink>{' '}
            find the payload below <Code>$.properties</Code>.
          </Text>
        </Stack>
      )}
      {!webhooks_only && (
        <Stack component="section" gap="sm" aria-labelledby="snippets">
          <Title order={2} size="h4" id="snippets">
            Send an event
          </Title>
          {writeKey.environment === 'production' ? (
            <Text size="sm">
              This key sends to <b>production</b>: rules forward what the snippets send, as they do with real
              events.
            </Text>
          ) : (
            <Alert color="grape" variant="light" title="This key sends to development">
              <Text size="sm">
                Rules run for production events by default: to see an event of this key at a destination, add
                development to the environments of the rule. Its events write no profiles.
              </Text>
            </Alert>
          )}
          <SnippetsPanel rawKey={rawKey} prefix={writeKey.key_prefix} />
        </Stack>
      )}
    </>
  );
}

function About({ writeKey }: { readonly writeKey: WriteKey }) {
  const { environment, key_prefix, source_id, collect_ip, webhooks_only, pubsub_topic } = writeKey;
  const { created_at, last_used_at } = writeKey;
  const rows: readonly (readonly [string, ReactNode])[] = [
    ['Key', <Code key="key">{key_prefix}…</Code>],
    [
      'Environment',
      <Group key="environment" gap="xs">
        <EnvironmentBadge environment={environment} />
        <Text size="sm">{ENVIRONMENT_TEXTS[environment]}</Text>
      </Group>,
    ],
    ['Source', source_id === null ? 'none' : <SourceName key="source" id={source_id} />],
    ['Accepts', webhooks_only ? 'webhooks of its source, and nothing else' : 'events'],
    ['IP addresses', collect_ip ? 'kept as context.ip' : 'not kept'],
    ['Topic', <Code key="topic">{pubsub_topic}</Code>],
    ['Created', <Timestamp key="created" value={created_at} />],
    ['Last used', <Timestamp key="used" value={last_used_at} />],
  ];
  return (
    <Stack component="section" gap="sm" aria-labelledby="about">
      <Title order={2} size="h4" id="about">
        About this key
      </Title>
      <Table layout="fixed" aria-labelledby="about" withRowBorders={false}>
        <Table.Tbody>
          {rows.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th w={130} fw={500}>
                {label}
              </Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Stack>
  );
}

function SourceName({ id }: { readonly id: string }) {
  const { data } = useQuery(sourcesQuery(useWorkspaceId()));
  if (data === undefined) return <Skeleton h={16} w={120} />;
  return data.find((source) => source.id === id)?.name ?? id;
}
