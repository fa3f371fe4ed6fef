import { Box, Button, Group, List, Modal, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { PlusIcon } from '@radix-ui/react-icons';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, pageOf } from '../../api/client.ts';
import { useMay, useWorkspaceId, workspacePath } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { TextLink } from '../../shared/links.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { type Column, PagedList } from '../../shared/paged-list.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { DayCountCell, type DayCounts, useDayCounts } from './day-counts.tsx';
import type { Source } from './queries.ts';
import type { KeyFilter } from './search.ts';
import { EditSource, NewSource } from './source-form.tsx';
import { WEBHOOK_KINDS } from './source-webhook.tsx';
import { MakeAddress } from './webhook-address.tsx';

const PAGE = 50;

interface Props {
  readonly filter: KeyFilter;
  readonly onFilter: (filter: KeyFilter) => void;
}

export function Sources({ filter: { q, sort, cursor }, onFilter }: Props) {
  const workspaceId = useWorkspaceId();
  const isEditor = useMay('editor');
  const [isNew, { open, close }] = useDisclosure(false);
  const [edited, setEdited] = useState<Source>();
  const [receiver, setReceiver] = useState<Source>();
  const isAdmin = useMay('admin');
  const dayCounts = useDayCounts(workspaceId, 'source');
  const create = isEditor && (
    <Button leftSection={<PlusIcon aria-hidden />} onClick={open}>
      Create source
    </Button>
  );
  return (
    <Stack>
      <PagedList
        label="Sources"
        queryKey={['sources', workspaceId]}
        load={({ q, sort, cursor }, signal) =>
          pageOf(
            api.GET('/api/v1/workspaces/{workspaceId}/sources', {
              params: {
                ...workspacePath(workspaceId),
                query: {
                  limit: PAGE,
                  count: 'true',
                  ...(q && { q }),
                  ...(cursor && { cursor }),
                  ...(sort && { sort: sort as 'name' }),
                },
              },
              signal,
            }),
          )
        }
        search={{ ...(q && { q }), ...(sort && { sort }), ...(cursor && { cursor }) }}
        onSearch={onFilter}
        columns={columnsOf(dayCounts, isEditor, setEdited, isAdmin ? setReceiver : undefined)}
        rowKey={({ id }) => id}
        minWidth={860}
        filters={<Box ml="auto">{create}</Box>}
        empty={
          <EmptyState title="No source yet">
            <Text c="dimmed">
              A source names where events come from: a website, an app, a server. Keys that name one mark
              their events with it. They are optional.
            </Text>
            {create}
          </EmptyState>
        }
      />
      <Modal opened={isNew} onClose={close} title="Create a source" closeOnClickOutside={false}>
        <NewSource
          onClose={close}
          onReceiver={(source) => {
            close();
            if (isAdmin) setReceiver(source);
          }}
        />
      </Modal>
      <Modal
        opened={receiver !== undefined}
        onClose={() => setReceiver(undefined)}
        title="Make its address"
        closeOnClickOutside={false}
      >
        {receiver !== undefined && <MakeAddress source={receiver} onClose={() => setReceiver(undefined)} />}
      </Modal>
      <Modal
        opened={edited !== undefined}
        onClose={() => setEdited(undefined)}
        title="Edit the source"
        closeOnClickOutside={false}
      >
        {edited !== undefined && <EditSource source={edited} onClose={() => setEdited(undefined)} />}
      </Modal>
    </Stack>
  );
}

function columnsOf(
  dayCounts: DayCounts,
  isEditor: boolean,
  edit: (source: Source) => void,
  receive: ((source: Source) => void) | undefined,
): readonly Column<Source>[] {
  return [
    { title: 'Name', sort: 'name', cell: ({ name }) => <Text fw={500}>{name}</Text> },
    { title: 'Kind', cell: ({ type }) => type },
    { title: 'Webhooks of', cell: ({ webhook }) => (webhook === null ? '' : WEBHOOK_KINDS[webhook.kind]) },
    {
      title: 'Description',
      cell: ({ description }) => (
        <Text size="sm" lineClamp={2} maw={360}>
          {description ?? ''}
        </Text>
      ),
    },
    { title: 'Events, 24 h', cell: ({ id }) => <DayCountCell counts={dayCounts} id={id} /> },
    {
      title: 'Write keys',
      cell: ({ id, name, workspace_id }) => (
        <TextLink
          to="/w/$workspaceId/keys"
          params={{ workspaceId: workspace_id }}
          search={{ tab: 'write', source_id: id }}
          aria-label={`Show keys of ${name}`}
        >
          Show keys
        </TextLink>
      ),
    },
    {
      title: 'Changed',
      sort: 'updated_at',
      cell: ({ updated_at }) => <Timestamp value={updated_at} relative />,
    },
    ...(isEditor
      ? [
          {
            title: 'Actions',
            cell: (source: Source) => (
              <Actions
                source={source}
                onEdit={() => edit(source)}
                {...(receive && source.webhook !== null && { onReceive: () => receive(source) })}
              />
            ),
          },
        ]
      : []),
  ];
}

function Actions({
  source: { id, workspace_id, name },
  onEdit,
  onReceive,
}: {
  readonly source: Source;
  readonly onEdit: () => void;
  /** Present where it receives webhooks. */
  readonly onReceive?: () => void;
}) {
  const queries = useQueryClient();
  const remove = async () => {
    await api.DELETE('/api/v1/workspaces/{workspaceId}/sources/{sourceId}', {
      params: { ...workspacePath(workspace_id), path: { workspaceId: workspace_id, sourceId: id } },
    });
    await queries.invalidateQueries({ queryKey: ['sources', workspace_id] });
    notifyDone(`The source "${name}" is deleted.`);
  };
  return (
    <Group gap="xs" wrap="nowrap">
      {onReceive !== undefined && (
        <Button size="xs" variant="default" onClick={onReceive} aria-label={`Make an address for ${name}`}>
          Make an address
        </Button>
      )}
      <Button size="xs" variant="default" onClick={onEdit} aria-label={`Edit ${name}`}>
        Edit
      </Button>
      <ConfirmButton label="Delete" size="xs" question={`Delete the source "${name}"?`} action={remove}>
        <List size="sm">
          <List.Item>
            Events that were received keep its id; they are shown with it instead of the name.
          </List.Item>
          <List.Item>It is refused while an active write key names it: revoke those keys first.</List.Item>
          <List.Item>This cannot be undone.</List.Item>
        </List>
      </ConfirmButton>
    </Group>
  );
}
