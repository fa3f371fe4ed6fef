import { Alert, Group, Loader, Text } from '@mantine/core';
import { CheckCircledIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, dataOf } from '../../api/client.ts';
import { useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { ButtonLink, TextLink } from '../../shared/links.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { WriteKey } from './queries.ts';

const SAMPLE_POLL_MS = 3_000;

/** Waits for the first event of a key, then links to it. The page of the key polls `last_used_at`. */
export function FirstEvent({
  writeKey: { id, status, last_used_at, environment, webhooks_only },
}: {
  readonly writeKey: WriteKey;
}) {
  const [wasWaiting] = useState(last_used_at === null);
  if (last_used_at === null && status === 'active')
    return (
      <Alert
        role="status"
        color="blue"
        variant="light"
        icon={<Loader size={16} aria-hidden />}
        title="Waiting for the first event …"
      >
        {webhooks_only
          ? 'Enter the address below at the service that sends, and let it send a test.'
          : 'Run a snippet below.'}{' '}
        This turns green by itself when the event arrives.
      </Alert>
    );
  if (last_used_at === null) return null;
  return (
    <Alert
      role="status"
      color="teal"
      variant="light"
      icon={<CheckCircledIcon aria-hidden />}
      title={wasWaiting ? 'The first event arrived' : 'Events arrive with this key'}
    >
      <Text size="sm" mb="sm">
        Last event: <Timestamp value={last_used_at} relative />, in the environment {environment}.
      </Text>
      {environment === 'development' && <NoRuleForDevelopment />}
      <EventLinks keyId={id} />
    </Alert>
  );
}

/** Rules take production events unless they name the environment, so a first test event is often not forwarded. */
function NoRuleForDevelopment() {
  const workspaceId = useWorkspaceId();
  const { data } = useQuery({
    queryKey: ['rules', workspaceId, 'of development'],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/event-forwarding-rules', {
          params: {
            ...workspacePath(workspaceId),
            query: { environment: 'development', enabled: 'true', limit: 1 },
          },
        }),
      ),
  });
  if (data?.length !== 0) return null;
  return (
    <Text size="sm" mb="sm">
      No enabled rule takes events of development, so these go to no destination.{' '}
      <TextLink underline="always" to="/w/$workspaceId/rules" params={{ workspaceId }}>
        Name the environment in a rule
      </TextLink>{' '}
      to forward them.
    </Text>
  );
}

/** The newest event of the key that the funnel keeps a sample of: the sample appears some seconds after the event. */
function EventLinks({ keyId }: { readonly keyId: string }) {
  const workspaceId = useWorkspaceId();
  const { data } = useQuery({
    queryKey: ['write keys', workspaceId, 'sample', keyId],
    queryFn: () =>
      dataOf(
        api.GET('/api/v1/workspaces/{workspaceId}/funnel/samples', {
          params: { ...workspacePath(workspaceId), query: { key: keyId, measure: 'received', limit: 1 } },
        }),
      ),
    refetchInterval: ({ state }) => (state.data?.message_ids.length === 0 ? SAMPLE_POLL_MS : false),
  });
  const messageId = data?.message_ids[0];
  return (
    <Group gap="xs">
      {messageId !== undefined && (
        <ButtonLink size="xs" to="/w/$workspaceId/events/$messageId" params={{ workspaceId, messageId }}>
          See the trace of an event
        </ButtonLink>
      )}
      <ButtonLink size="xs" variant="default" to="/w/$workspaceId/live" params={{ workspaceId }}>
        Watch events live
      </ButtonLink>
    </Group>
  );
}
